"""Nothing that comes from input is obeyed by a terminal: it is shown by its number, wherever it stood."""

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from rich.cells import cell_len
from rich.text import Text

import fairway
from fairway.app.logs import RunLog
from fairway.app.view.frame import Frame, NodeUse
from fairway.cli.output import console, echo, escaped, log_line, one_line, print_json, print_structured, table, warn
from fairway.cli.sandbox import event_line
from fairway.clock import SECOND
from support import objects as make
from support.cli import Result, invoke
from support.objects import NOW, manifest
from support.sandboxes import made
from support.screens import StillCluster, Watched, watch

HOSTILE = {
    "clipboard": "\x1b]52;c;aGk=\x07",
    "color": "\x1b[31mred\x1b[0m",
    "c1": "\x9b31m\x85\x90",
    "direction": "\u202eabc\u2066\u200f",
    "line ends": "\u2028\u2029\r",
    "rest": "\x00\x08\x7f\ufeff\u061c\U000e0041",
}
EVERYTHING = "".join(HOSTILE.values())


def obeyed(text: str) -> set[str]:
    """What a terminal would obey or not show, by Unicode's own classes and not by the table under test."""
    return {
        character
        for character in text
        if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }


def check(result: Result) -> None:
    assert result.code in (0, 1, 2), result.err
    assert obeyed(result.out) == set()
    assert obeyed(result.err) == set()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_such_characters_are_shown_by_their_number(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    echo(text)
    warn(f"two\n{text}")
    rows = table("name")
    rows.add_row(text)
    out = console()
    out.print(rows)
    out.print(text)
    out.print(Text(text))
    print_structured({"name": text, text: [text]}, "yaml")
    found = capsys.readouterr()
    assert obeyed(found.out) == set() == obeyed(found.err)
    assert found.err.count("\n") == 1


def test_what_is_harmless_stays_as_it_is() -> None:
    text = "naïve ▇░ 資料 \N{PARTY POPPER} a\tb\nc"
    assert escaped(text) == text
    assert one_line("a\nb") == "a\\nb"
    assert escaped("\x1b\u202e\U000e0041") == "\\x1b\\u202e\\U000e0041"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_document_means_the_same_as_before(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = {"name": EVERYTHING, EVERYTHING: [EVERYTHING, 1]}
    print_structured(data, output)
    text = capsys.readouterr().out
    assert obeyed(text) == set()
    assert (json.loads(text) if output == "json" else yaml.safe_load(text)) == data
    print_json(json.dumps(data, ensure_ascii=False).encode())
    assert json.loads(capsys.readouterr().out) == data


def test_lines_of_a_log_stay_json(capsys: pytest.CaptureFixture[str]) -> None:
    log = RunLog("json", write=log_line)
    log.info("bound", pod=EVERYTHING)
    text = capsys.readouterr().err
    assert obeyed(text) == set()
    assert json.loads(text)["pod"] == EVERYTHING
    RunLog("text", write=log_line).info("bound", pod=EVERYTHING)
    text = capsys.readouterr().err
    assert obeyed(text) == set()
    assert text.count("\n") == 1


def test_nothing_is_printed_elsewhere() -> None:
    """`click.echo` and rich's own console are used by the one module that escapes; so does the log of the page."""
    source = Path(fairway.__file__).parent
    found = [
        str(file.relative_to(source))
        for file in sorted(source.rglob("*.py"))
        if re.search(
            r"click\.(s?echo|prompt|confirm)|\bConsole\(|std(out|err)\.write|print_exception", file.read_text()
        )
    ]
    assert found == ["app/logs.py", "cli/output.py"]


# -- every textual position of every command's input ---------------------------------------------------------------


def positions(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every text in a document, and every key (as the path with a trailing None)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from positions(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from positions(inner, (*path, index))


def poisoned(document: Any, path: tuple[str | int, ...], *, key: bool) -> Any:
    """A copy with hostile text at a place, as its value or in its key."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    if key:
        inner[f"{path[-1]}{EVERYTHING}"] = inner[path[-1]]
    else:
        inner[path[-1]] = EVERYTHING
    return copy


CLUSTER = [
    manifest(make.node("n1", cpu=4, labels={"zone": "x"}, taints=["a=b:NoSchedule"])),
    manifest(make.queue("q", capability={"cpu": 2})),
    manifest(make.group("g", minimum=2, queue="q")),
    manifest(make.pod("p", cpu=1, group="g", labels={"app": "web"}, spec={"nodeSelector": {"zone": "x"}})),
    manifest(make.pod("alone", cpu=1, queue="q")),
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
]


def cases() -> list[tuple[int, tuple[str | int, ...], bool]]:
    return [
        (index, path, key)
        for index, document in enumerate(CLUSTER)
        for path in positions(document)
        for key in (False, True)
    ]


@pytest.mark.parametrize("command", ["plan", "queues"])
def test_manifests(command: str, tmp_path: Path) -> None:
    for index, path, key in cases():
        items = [poisoned(thing, path, key=key) if at == index else thing for at, thing in enumerate(CLUSTER)]
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        check(invoke(command, "-f", str(file), "--now", "2026-01-02T00:00:00Z", "--all-pods"))


@pytest.mark.parametrize("arguments", [("explain", "default/alone"), ("explain", EVERYTHING), ("place",), ("classes",)])
def test_commands_that_read_manifests(arguments: tuple[str, ...], tmp_path: Path) -> None:
    hostile = manifest(make.pod("alone", cpu=1, queue=EVERYTHING, annotations={"x": EVERYTHING}))
    unknown = {"apiVersion": f"v1{EVERYTHING}", "kind": f"Odd{EVERYTHING}", "metadata": {"name": EVERYTHING}}
    file = tmp_path / f"clus{HOSTILE['color']}ter.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*CLUSTER[:4], hostile, unknown]}))
    check(invoke(*arguments, "-f", str(file)))
    for output in ("json", "yaml"):
        check(invoke(*arguments, "-f", str(file), "-o", output))


POLICY = {
    "actions": "enqueue, allocate",
    "tiers": [{"plugins": [{"name": "drf", "arguments": {"priorityFirst": True}}]}],
}


def test_policies(tmp_path: Path) -> None:
    for path in positions(POLICY):
        for key in (False, True):
            file = tmp_path / "policy.yaml"
            file.write_text(json.dumps(poisoned(POLICY, path, key=key)))
            check(invoke("policy", "check", str(file)))
            check(invoke("policy", "show", "--policy", str(file)))


SCENARIO = {
    "name": "day",
    "cluster": {"nodes": [{"name": "n", "count": 1, "allocatable": {"cpu": "4"}}], "queues": [{"name": "q"}]},
    "workload": {"jobs": [{"name": "w", "queue": "q", "tasks": 1, "run": "1m", "request": {"cpu": "1"}}]},
    "assert": ["no evictions"],
}


def test_scenarios_and_their_names(tmp_path: Path) -> None:
    for path in positions(SCENARIO):
        for key in (False, True):
            file = tmp_path / f"s{HOSTILE['color']}.yaml"
            file.write_text(json.dumps(poisoned(SCENARIO, path, key=key)))
            check(invoke("simulate", str(file)))


@pytest.mark.parametrize(
    "arguments",
    [
        (EVERYTHING[:-1].replace("\x00", ""),),
        ("plan", "-f", "no\x1b[31m.yaml"),
        ("plan", "--\x1b[31m"),
        ("simulate", "no\x1b[31m.yaml"),
        ("diff", "no\x1b[31m.yaml", "default", "default"),
        ("sweep", "no\x1b[31m.yaml", "--set", "\x1b[31m=1"),
        ("policy", "check", "no\x1b[31m.yaml"),
        ("compare", "cpu=\x1b[31m", "cpu=1"),
        ("get", "\x1b[31m", "--sandbox", "http://127.0.0.1:1/\x1b[31m"),
        ("apply", "-f", "no\x1b[31m.yaml"),
        ("replay", "no\x1b[31m.log"),
        ("sandbox", "--state", "/dev/null/\x1b[31m/s.db"),
    ],
    ids=lambda arguments: str(arguments[0]).encode("unicode_escape").decode()[:20],
)
def test_what_is_typed(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments)
    check(result)
    assert result.code == 2


def test_bytes_of_a_name_that_are_no_text(tmp_path: Path) -> None:
    check(invoke("plan", "-f", str(tmp_path / "no-\udcff.yaml")))


LONG = ("long-" * 51)[:253]
WIDE = "資料\N{PARTY POPPER}e\u0301" * 20
MARKUP = "[red]x[/red] [link=file:///]y[/]"


NAMES = {"codes": EVERYTHING, "long": LONG, "wide": WIDE, "markup": MARKUP, "lines": "a\nb\tc"}


def renamed(value: Any, name: str) -> Any:
    """A document with `odd` in any text replaced: names that an API server would refuse, too."""
    if isinstance(value, dict):
        return {renamed(key, name): renamed(inner, name) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [renamed(inner, name) for inner in value]
    return value.replace("odd", name) if isinstance(value, str) else value


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_the_live_view(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Jobs, queues, namespaces, nodes and events of such names."""
    jobs = (make.pod("odd-1", "odd", cpu=1, queue="odd"), make.pod("odd-2", "odd", cpu=9, queue="odd"))
    sandbox = made(make.node("odd", cpu=1, labels={"odd": "odd"}), make.queue("odd"), *jobs)
    sandbox.advance(NOW + 5 * SECOND)
    cluster = StillCluster(sandbox)
    cluster.shown = msgspec.convert(renamed(msgspec.to_builtins(cluster.shown), name), Frame)
    nodes = msgspec.convert(renamed(msgspec.to_builtins(sandbox.nodes()), name), list[NodeUse])
    cluster.nodes = lambda: nodes  # type: ignore[method-assign]

    async def use(screen: Watched) -> None:
        for keys in (("1", "enter"), ("2", "end", "enter"), ("3", "enter"), ("4", "enter")):
            for key in keys:
                await screen.press(key)
                lines = screen.lines()
                assert {cell_len(line) for line in lines} == {80}
                assert obeyed("".join(lines)) == set()
                assert not any("\n" in line or "\t" in line for line in lines)
            await screen.press("escape")

    watch(cluster, use)
    for event in cluster.shown.happenings:
        echo(event_line(event))
    found = capsys.readouterr()
    assert obeyed(found.out) == set() == obeyed(found.err)
    assert found.out.count("\n") == len(cluster.shown.happenings) > 0
