"""The screen of a sandbox: everything that matters, in as much room as there is."""

import json
from pathlib import Path

import pytest

from fairway.api.policy import parse_policy
from fairway.app.sandbox.engine import Sandbox
from fairway.app.view.frame import Frame
from fairway.cli.sandbox_view import event_line, screen
from fairway.scheduler.plugins.installed import default_registry
from support.objects import gang, node, pod, pods, queue
from support.sandboxes import after, made, running_for

URL = "http://127.0.0.1:7333"
ARGUMENTS = {"starvingJobTimeThreshold": 3600, "reservedNodePercent": 100}
EAGER = {"actions": ["enqueue", {"name": "reserve", "arguments": ARGUMENTS}, "allocate"]}


def busy() -> Sandbox:
    """Ten small jobs run, a gang starves and has nodes reserved, twenty wait behind it."""
    policy = parse_policy(json.dumps(EAGER), "test", default_registry().catalog)
    where = {"queue": "research", "gpu": 1, "cpu": 1}
    small = [pod(f"small-{i:02}", "vision", node=f"gpu-{i % 2}", created=i, **where) for i in range(10)]
    big = gang("big", "language", members=2, queue="research", created=20, gpu=5, cpu=1)
    behind = pods("more", 20, "vision", queue="research", gpu=1, cpu=1)
    nodes = [node(f"gpu-{i}", gpu=5, cpu=64, memory="64Gi") for i in range(2)]
    return after(made(nodes, queue("research", 3), queue("idle"), small, big, behind, with_policy=policy), 100)


@pytest.fixture
def frame() -> Frame:
    return busy().frame()


def lines_of(frame: Frame, width: int, height: int) -> list[str]:
    return screen(frame, "60", URL, width, height).plain.split("\n")


def test_what_is_on_the_screen(frame: Frame) -> None:
    lines = lines_of(frame, 80, 24)
    assert lines[0].startswith(" Fairway sandbox   2026-01-02 00:01:40  x60")
    assert lines[0].endswith(URL)
    assert lines[1] == "2 nodes  gpu ████████ 100%  cpu █░░░░░░░ 8%  memory ░░░░░░░░ 0%   0 done"
    assert lines[2] == "Queues: share of the cluster, allocated of deserved"
    assert lines[3].startswith("  idle      ░░░░░░░░░░░░░░░░    0%")
    assert lines[4].startswith("  research  ████████████████  100%  10 allocated + 10 reserved/10 gpu")
    assert lines[5].split() == ["Namespaces", "by", "weight", "language", "100%", "vision", "100%"]
    where = lines.index("Running: 10 jobs")
    assert lines[where + 1].startswith("  vision/small-00 and 9 more")
    assert lines[where + 1].endswith(" 10 pods  100s         gpu-0, gpu-1")
    waiting = lines.index("Waiting: 21 jobs")
    text = "\n".join(lines[waiting:])
    assert "language/big" in text
    assert "starving; " in text
    shown = lines[waiting : lines.index("Reserved")]
    assert not any("…" in line for line in shown), "reasons are there in full"
    assert "and wait" in " ".join(shown)
    assert "vision/more-00 and 19 more" in text
    reserved = lines.index("Reserved")
    assert lines[reserved + 1].split() == ["language/big", "gpu-0,", "gpu-1"]
    assert "Events" in lines
    assert lines[-1].startswith("Ctrl-C stops")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 50), (60, 20), (40, 12), (300, 100)])
def test_it_fits_whatever_the_size(frame: Frame, width: int, height: int) -> None:
    lines = lines_of(frame, width, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith("Ctrl-C stops")


def test_an_empty_cluster_has_a_screen_too() -> None:
    lines = lines_of(made().frame(), 80, 24)
    assert len(lines) == 24
    assert lines[1].startswith("0 nodes")
    assert lines.count("  none") == 3


def test_many_kinds_of_jobs_are_cut_and_counted() -> None:
    names = ["".join(chr(97 + int(digit)) for digit in f"{i:03}") for i in range(40)]
    sandbox = after(made(node("n", cpu=40), [pod(name, cpu=1) for name in names]), 5)
    lines = lines_of(sandbox.frame(), 80, 24)
    cut = next(line for line in lines if line.endswith("lines more"))
    shown = lines.index(cut) - lines.index("Running: 40 jobs") - 1
    assert cut == f"  and {40 - shown} lines more"


def test_events_as_plain_lines(tmp_path: Path) -> None:
    sandbox = after(made(node("n", cpu=1), pod("a", cpu=1, annotations=running_for("10s")), path=tmp_path / "s.db"), 60)
    assert [event_line(one) for one in sandbox.happenings(9)] == [
        "2026-01-02T00:00:00Z placed    default/a 1 pod on n",
        "2026-01-02T00:00:12Z finished  default/a 1 pod done",
    ]
    sandbox.close()
