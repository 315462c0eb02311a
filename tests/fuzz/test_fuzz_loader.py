"""Whatever is in a file or a request: exit status 0, 1 or 2, and an answer of HTTP, never an error of our own.

The spoiled inputs are drawn from fixed seeds: an ordinary run takes a few hundred, `make fuzz` new ones from its seed.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from fairway.app.sandbox.engine import Sandbox
from fairway.cli.output import escaped
from fuzz.mutations import spoiled_bytes, spoiled_value, text_of
from support import objects as make
from support.cli import invoke
from support.effort import dice, examples
from support.objects import manifest
from support.sandboxes import made
from support.web_pages import AskedPage

pytestmark = pytest.mark.hypothesis  # so that `make fuzz` selects these tests, too
ROOT = Path(__file__).parents[2]
NOW = "2026-01-02T00:00:00Z"
MANIFESTS = sorted(
    path for path in ROOT.glob("examples/**/*.yaml") if re.search(r"^kind:", path.read_text(), re.MULTILINE)
)
POLICIES = sorted(path for path in ROOT.glob("examples/**/*.yaml") if re.search(r"^tiers:", path.read_text(), re.M))


def check(command: list[str], file: Path, data: bytes) -> None:
    file.write_bytes(data)
    result = invoke(*command)
    assert result.code in (0, 1, 2), (result.err, data[:2000])
    assert "fault in Fairway" not in result.err
    assert escaped(result.out + result.err) == result.out + result.err


def documents(path: Path) -> list[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def test_there_is_something_to_spoil() -> None:
    assert len(MANIFESTS) > 10
    assert POLICIES


@pytest.mark.parametrize("seed", range(4))
def test_bytes_of_manifests(seed: int, tmp_path: Path) -> None:
    random = dice(seed)
    for number in range(examples(25, 1500)):
        path = random.choice(MANIFESTS)
        data = path.read_bytes()[:20_000]
        if number % 3 == 0:
            data = text_of({"apiVersion": "v1", "kind": "List", "items": documents(path)})[:20_000]
        file = tmp_path / random.choice(("x.yaml", "x.json"))
        check(["plan", "-f", str(file), "--all-pods", "--now", NOW], file, spoiled_bytes(data, random))


ALMOST = [
    "1", '"a"', "null", "[1]", "{}", '"\\x"', '"\\ud800"', '"\x01"', "01", "-", "1.", ".5", "1e", "NaN", "-Infinity",
    "tru", '{"a" 1}',
    '{"a":1,}', "[1,]", "{1:2}", "'a'", '"\\u12"', "9" * 5000, "1e999", "-0",
    '{"name":"\\x"}', '"unended', "[1 2]", '[{"kind":"Pod"} {}]',
]  # fmt: skip
"""Values of JSON, and texts that a decoder may take for one until it has read them to the end."""
PLACES = [
    "%s", "%s %s", "[%s]", "[%s %s]", '{"kind":"Pod","apiVersion":"v1","metadata":%s}',
    '{"kind":"List","apiVersion":"v1","items":[%s]}', '{"kind":"List","apiVersion":"v1","items":%s}',
    '{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod","apiVersion":"v1","metadata":%s}]}',
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_text_that_is_almost_json(place: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for text in ALMOST:
        check(["plan", "-f", str(file), "--all-pods"], file, place.replace("%s", text).encode())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("command", ["plan", "place", "classes", "explain"])
def test_values_of_manifests(command: str, seed: int, tmp_path: Path) -> None:
    random = dice(command, seed)
    for _ in range(examples(10, 600)):
        items = [item for path in random.sample(MANIFESTS, 2) for item in documents(path)][:40]
        file = tmp_path / random.choice(("x.yaml", "x.json"))
        flags = [] if random.randrange(2) else ["--skip-invalid"]
        arguments = {
            "plan": ["--all-pods", "--now", NOW, *flags],
            "explain": ["team-vision/sweep", "--all-pods", *flags],
        }.get(command, flags)
        data = text_of({"apiVersion": "v1", "kind": "List", "items": spoiled_value(items, random)})
        check([command, *arguments, "-f", str(file)], file, data)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spoil", ["bytes", "values"])
def test_policies(spoil: str, seed: int, tmp_path: Path) -> None:
    random = dice(spoil, seed)
    for _ in range(examples(15, 1000)):
        path = random.choice(POLICIES)
        if spoil == "bytes":
            data = spoiled_bytes(path.read_bytes(), random)
        else:
            data = text_of(spoiled_value(yaml.safe_load(path.read_text()), random))
        file = tmp_path / "policy.yaml"
        check(["policy", "check", str(file)], file, data)
        check(["plan", "-f", str(ROOT / "examples/cluster"), "--policy", str(file), "--now", NOW], file, data)


# -- requests to the sandbox ---------------------------------------------------------------------------------------

OBJECTS = [
    manifest(make.pod("new", cpu=1, queue="q", labels={"app": "web"})),
    manifest(make.group("g", minimum=2, queue="q")),
    manifest(make.pod("member", cpu=1, group="g")),
    manifest(make.queue("q", capability={"cpu": 2})),
    manifest(make.node("n2", cpu=4, taints=["a=b:NoSchedule"])),
]


@pytest.fixture
def sandbox() -> Sandbox:
    return made(make.node("n", cpu=4), make.queue("q"), make.pod("old", cpu=1, queue="q"))


Spoil = Callable[[Any, Random], bytes]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", ["apply", "delete"])
def test_bodies_of_requests(path: str, seed: int, sandbox: Sandbox) -> None:
    """Each is answered; after all of them the sandbox still decides."""
    random, api = dice(path, seed), AskedPage(sandbox)
    names = [{"kind": thing["kind"], "name": thing["metadata"]["name"]} for thing in OBJECTS]
    body = {"objects": OBJECTS if path == "apply" else names}
    for _ in range(examples(40, 3000)):
        data = text_of(spoiled_value(body, random)) if random.randrange(2) else spoiled_bytes(text_of(body), random)
        answer = api.ask("POST", path, data)
        assert answer.status in (200, 404, 422), (answer, data[:2000])
        sandbox.advance(sandbox.now + 1_000_000)
    assert api.get("frame").status == 200
    assert api.get("objects/pods").status == 200


@pytest.mark.parametrize("seed", range(2))
def test_paths_of_requests(seed: int, sandbox: Sandbox) -> None:
    random, api = dice(seed), AskedPage(sandbox)
    for _ in range(examples(100, 5000)):
        path = spoiled_bytes(b"explanations/default/old objects/pods/default/old lists/jobs", random)
        for method in ("GET", "POST", "PUT"):
            asked = quote(path.split(b" ")[random.randrange(2) - 1])
            answer = api.ask(method, asked, None if method == "GET" else b"{}")
            assert answer.status < 500, (answer, path)
            json.dumps(str(answer.document))
