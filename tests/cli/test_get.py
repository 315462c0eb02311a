"""`fairway get` on a sandbox: which entries, in which order, in which form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.api.devices import ResourceClass
from fairway.cli.output import age, readable
from fairway.clock import SECOND
from support import objects as make
from support.objects import NOW
from support.sandboxes import made
from support.web_pages import served

Fairway = Callable[..., Any]


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    sandbox = made(
        make.node("n10", cpu="3900m", memory="65843172Ki", labels={"zone": "b"}),
        make.node("n2", cpu=4, labels={"zone": "a"}),
        make.queue("research"),
        make.pod("web", cpu=1, namespace="team", labels={"app": "web"}, queue="research", created=0),
        make.pod("big", cpu=64, namespace="other", labels={"app": "batch"}, queue="research", created=5),
    )
    sandbox.advance(NOW + 200 * SECOND)
    with served(sandbox) as page:
        monkeypatch.setenv("FAIRWAY_SANDBOX", page.address)
        yield sandbox
    sandbox.close()


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip() and "──" not in line]


def names(result: Any) -> list[str]:
    assert result.code == 0, result.err
    return [line.split()[0] for line in result.out.splitlines() if line.strip() and "──" not in line][1:]


pytestmark = pytest.mark.usefixtures("sandbox")


def test_a_job_has_an_age_and_the_reason_that_it_waits_for(fairway: Fairway) -> None:
    head, *entries = rows(fairway("get").out)
    assert head[:5] == ["job", "queue", "phase", "pods", "age"]
    by_name = {entry[0]: entry for entry in entries}
    assert by_name["other/big"][1:4] == ["research", "waiting", "1"]
    assert by_name["other/big"][4].endswith(("s", "m", "h", "d"))
    assert by_name["other/big"][5] == "NeverFits"


@pytest.mark.parametrize(("short", "full"), [("po", "pods"), ("no", "nodes"), ("q", "queues"), ("ev", "events")])
def test_short_names_mean_what_the_long_ones_do(fairway: Fairway, short: str, full: str) -> None:
    assert fairway("get", short, "-o", "json").out == fairway("get", full, "-o", "json").out
    assert fairway("get", full).code == 0


def test_every_short_name_is_one_of_a_kind() -> None:
    from fairway.app.sandbox.commands import SHORT_NAMES, kind_named

    assert kind_named("resclass").struct is ResourceClass
    assert all(kind_named(short).name.lower() == full for short, full in SHORT_NAMES.items() if full != "event")


def test_namespaces_and_labels(fairway: Fairway) -> None:
    assert fairway("get", "po", "-o", "name").out == "pod/other/big\npod/team/web\n"
    assert fairway("get", "po", "-A", "-o", "name").out == fairway("get", "po", "-o", "name").out
    assert fairway("get", "po", "-n", "team", "-o", "name").out == "pod/team/web\n"
    for selector in ("app=web", "app==web", "app!=batch", "app in (web, x)", "app notin (batch)", "app,app!=batch"):
        assert fairway("get", "po", "-l", selector, "-o", "name").out == "pod/team/web\n", selector
    assert fairway("get", "jobs", "-l", "app=batch", "-o", "name").out == "job/other/big\n"
    assert fairway("get", "no", "-l", "zone=a", "-o", "name").out == "node/n2\n"
    assert fairway("get", "po", "-l", "!app", "-o", "name").out == ""
    assert fairway("get", "po", "-l", "a=b=c").code == 2
    assert fairway("get", "po", "-A", "-n", "team").code == 2
    assert fairway("get", "events", "-l", "app=web").code == 2


def test_sorting_is_by_column_or_field_and_reads_numbers(fairway: Fairway) -> None:
    assert names(fairway("get", "no", "--sort-by", "node")) == ["n2", "n10"]
    assert names(fairway("get", "no", "--sort-by", ".allocatable.cpu")) == ["n2", "n10"]
    created = fairway("get", "po", "--sort-by", "{.metadata.creationTimestamp}", "-o", "name").out
    assert created == fairway("get", "po", "--sort-by", "age", "-o", "name").out == "pod/team/web\npod/other/big\n"
    wrong = fairway("get", "po", "--sort-by", "colour")
    assert wrong.code == 2
    assert "expected one of namespace, name, status, age, node" in wrong.err


def test_amounts_are_short_in_tables_and_exact_in_data(fairway: Fairway) -> None:
    assert "3.9 cpu" in fairway("get", "nodes").out
    assert "62.8Gi memory" in fairway("get", "nodes").out
    assert '"65843172Ki"' in fairway("get", "nodes", "-o", "json").out


def test_forms(fairway: Fairway) -> None:
    data = json.loads(fairway("get", "pods", "-o", "json").out)
    assert yaml.safe_load(fairway("get", "pods", "-o", "yaml").out) == data
    assert [item["kind"] for item in data["items"]] == ["Pod", "Pod"]
    assert "app=web" in fairway("get", "pods", "-o", "wide").out
    assert "app=web" not in fairway("get", "pods").out


@pytest.mark.parametrize("kind", ["jobs", "pods", "nodes", "queues", "podgroups"])
def test_what_is_not_there_is_said_with_status_1(fairway: Fairway, kind: str) -> None:
    result = fairway("get", kind, "nosuch")
    assert result.code == 1
    assert "there is no" in result.err
    assert "nosuch" in result.err
    assert result.out == ""


def test_a_kind_that_is_not_there_is_wrong_usage(fairway: Fairway) -> None:
    assert fairway("get", "nosuch").code == 2


def test_watching_prints_what_is_new_or_has_changed(
    fairway: Fairway, sandbox: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Callable[[], object]] = [
        lambda: sandbox.advance(NOW + 300 * SECOND),
        lambda: sandbox.apply([make.pod("late", cpu=64, namespace="team", queue="research", created=0)]),
    ]

    def sleep(_: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr("fairway.cli.get.time.sleep", sleep)
    result = fairway("get", "po", "-w")
    assert result.code == 0
    assert [row[1] for row in rows(result.out)] == ["name", "big", "web", "late"]
    lines = result.out.splitlines()
    assert lines[-1].index("late") == lines[0].index("  name") + 2, "columns stay where they are"


def test_a_queue_in_use_is_not_deleted(fairway: Fairway, sandbox: Any) -> None:
    sandbox.apply([make.queue("team", parent="research"), make.group("idle", queue="team")])
    refused = fairway("delete", "q", "research")
    assert refused.code == 2
    assert refused.err == (
        "Error: Queue research is in use by Pod other/big, Pod team/web, Queue team; delete these first\n"
    )
    refused = fairway("delete", "q", "team")
    assert refused.err == "Error: Queue team is in use by PodGroup default/idle; delete these first\n"
    assert fairway("get", "q", "-o", "name").out.count("queue/") >= 2
    assert fairway("delete", "pg", "idle").code == 0
    assert fairway("delete", "q", "team").out == "Queue team deleted\n"
    assert fairway("delete", "pods", "team/web", "other/big").code == 0
    assert fairway("delete", "q", "research").out == "Queue research deleted\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (45, "45s"), (119, "119s"), (200, "3m20s"), (3600, "60m"), (7300, "2h1m"), (200_000, "2d7h"),
     (90_000_000, "1041d")],
)  # fmt: skip
def test_ages(seconds: int, text: str) -> None:
    assert age(seconds * SECOND) == text


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [("memory", "65843172Ki", "62.8Gi"), ("memory", "1Gi", "1Gi"), ("memory", "500M", "477Mi"), ("memory", "0", "0"),
     ("cpu", "3900m", "3.9"), ("cpu", "250m", "0.25"), ("cpu", "12000", "12000"), ("nvidia.com/gpu", "8", "8")],
)  # fmt: skip
def test_amounts(name: str, text: str, shown: str) -> None:
    assert readable(name, text) == shown


# -- of manifests ---------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> str:
    things = [
        make.node("n1", cpu=4),
        make.queue("research"),
        make.pod("web", cpu=1, namespace="team", node="n1", labels={"app": "web"}, queue="research", created=0),
        make.pod("big", cpu=64, namespace="other", queue="research", created=5),
        make.pod("small", cpu=1, namespace="other", queue="research", created=6),
    ]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(make.manifest(thing) for thing in things))
    return str(path)


def test_manifests_are_listed_as_the_next_cycle_would_leave_them(fairway: Fairway, files: str) -> None:
    found = {row[0]: row[1:4] for row in rows(fairway("get", "jobs", "-f", files, "--all-pods").out)[1:]}
    assert found == {
        "other/big": ["research", "waiting", "1"],
        "other/small": ["research", "starting", "1"],
        "team/web": ["research", "running", "1/1"],
    }
    assert names(fairway("get", "pods", "-f", files, "-n", "other", "-o", "name")) == ["pod/other/small"]
    (node,) = json.loads(fairway("get", "node", "n1", "-f", files, "--all-pods", "-o", "json").out)["items"]
    assert (node["name"], node["used"]["cpu"]) == ("n1", "1")
    (queue,) = rows(fairway("get", "q", "research", "-f", files, "--all-pods").out)[1:]
    assert queue[:3] == ["research", "1", "Open"]


def test_what_manifests_cannot_tell_is_an_error(fairway: Fairway, files: str) -> None:
    watched = fairway("get", "jobs", "-w", "-f", files)
    assert (watched.code, watched.out) == (2, "")
    assert "-w requires the sandbox" in watched.err
    events = fairway("get", "events", "-f", files)
    assert (events.code, events.out) == (2, "")
    assert "events are kept by the sandbox" in events.err
    missing = fairway("get", "queue", "nosuch", "-f", files)
    assert (missing.code, missing.err) == (1, "Error: there is no Queue nosuch\n")
    both = fairway("get", "jobs", "-f", files, "--context", "x")
    assert (both.code, both.out) == (2, "")


def test_queues_of_the_sandbox_have_the_shares_that_it_shows(fairway: Fairway) -> None:
    found = json.loads(fairway("queues", "-o", "json").out)
    listed = {row["name"]: row for row in json.loads(fairway("get", "queues", "-o", "json").out)["items"]}
    assert {row["name"]: row for row in found["queues"]} == listed
    assert [(row["queue"], row["namespace"]) for row in found["namespaces"]]
    assert "research" in fairway("queues").out
