"""The screen: what it shows, in as much room as there is, and what its keys do."""

import json
from fractions import Fraction

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from fairway.api.policy import parse_policy
from fairway.app.sandbox.engine import Sandbox
from fairway.scheduler.plugins.installed import default_registry
from support.objects import gang, node, pod, pods, queue
from support.sandboxes import after, made
from support.screens import URL, HeldPace, StillCluster, Watched, watch

ARGUMENTS = {"starvingJobTimeThreshold": 3600, "reservedNodePercent": 100}
EAGER = {"actions": ["enqueue", {"name": "reserve", "arguments": ARGUMENTS}, "allocate"]}
SIZES = [(80, 24), (120, 40), (40, 12), (20, 6)]


@pytest.fixture(scope="module")
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
def cluster(busy: Sandbox) -> StillCluster:
    return StillCluster(busy)


def test_the_first_screen_says_what_waits_and_why(cluster: StillCluster) -> None:
    async def use(screen: Watched) -> None:
        lines = [line.rstrip() for line in screen.lines()]
        assert lines[0].startswith(" Fairway sandbox   2026-01-02 00:01:40  x60")
        assert lines[0].endswith(URL)
        assert lines[1] == "2 nodes  gpu ████████ 100%  cpu █░░░░░░░ 8%  memory ░░░░░░░░ 0%   0 finished"
        assert lines[2] == "idle      ░░░░░░░░   0%  idle"
        assert lines[3] == "research  ████████ 100%  10 + 10 reserved of 10 gpu  language 100%  vision 100%"
        assert lines[4].split("  ")[0] == " 1 Jobs: 21 waiting, 10 running"
        assert lines[5].split() == ["JOB", "STATE", "PODS", "AGE", "QUEUE", "REASON,", "OR", "NODES"]
        first = next(at for at, line in enumerate(lines) if line.startswith("language/big"))
        assert lines[first].split()[1:] == ["starving", "2", "24h", "research", "NodeResourceReserved"]
        text = "\n".join(lines)
        assert "…" not in text, "reasons are there in full"
        assert text.count("as above") >= 10
        assert lines[-1].endswith("q stop")

    watch(cluster, use)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_it_fits_whatever_the_size(cluster: StillCluster, width: int, height: int) -> None:
    async def use(screen: Watched) -> None:
        for key in "1234":
            await screen.press(key)
            lines = screen.lines()
            assert len(lines) == height
            assert {cell_len(line) for line in lines} == {width}

    watch(cluster, use, size=(width, height))


def test_each_list_and_what_enter_says_of_a_row(cluster: StillCluster) -> None:
    async def use(screen: Watched) -> None:
        await screen.press("2")
        await screen.until("ALLOCATED OF DESERVED", "  language")
        await screen.press("end", "enter")
        await screen.until("Namespace vision in queue research", "100.0% divided by", "Esc closes")
        await screen.press("escape", "tab")
        await screen.until("IN USE", "gpu ██████ 5/5", "reserved for language/big")
        await screen.press("enter")
        await screen.until("Running jobs:", "vision/small-00 for 100s")
        await screen.press("q", "4")
        await screen.until("EVENT", "reserved")
        await screen.press("shift+tab")
        await screen.until("IN USE")

    watch(cluster, use)
    assert not cluster.asked


def test_enter_explains_the_selected_job(cluster: StillCluster) -> None:
    async def use(screen: Watched) -> None:
        await screen.press("slash", *"language/big", "enter")
        await screen.until("filter: 'language/big'")
        await screen.press("enter")
        await screen.until("language/big is pending in queue research (starving)")
        await screen.press("end")
        await screen.until("When it starts")

    watch(cluster, use)
    assert cluster.asked == ["language/big"]


def test_a_job_that_is_gone_when_it_is_asked_for_is_said_so(cluster: StillCluster) -> None:
    async def use(screen: Watched) -> None:
        cluster.shown = replace(
            cluster.shown, waiting=tuple(replace(job, job=f"gone/{i}") for i, job in enumerate(cluster.shown.waiting))
        )
        await screen.until("gone/0")
        await screen.press("enter")
        await screen.until("gone/0: there is no such job")

    watch(cluster, use)


def test_the_selected_row_stays_selected_while_others_come_and_go(cluster: StillCluster) -> None:
    async def use(screen: Watched) -> None:
        await screen.press("down", "down", "down")
        chosen = screen.app.query_one("Listing").selected.key  # type: ignore[attr-defined]
        waiting = cluster.shown.waiting
        cluster.shown = replace(cluster.shown, waiting=tuple(job for job in waiting if job.job == chosen) + waiting[:1])
        await screen.until("2 waiting")
        assert screen.app.query_one("Listing").selected.key == chosen  # type: ignore[attr-defined]

    watch(cluster, use)


def test_the_first_row_is_followed_until_another_is_chosen(cluster: StillCluster) -> None:
    async def use(screen: Watched) -> None:
        cluster.shown = replace(cluster.shown, waiting=cluster.shown.waiting[::-1])
        await screen.until("21 waiting")
        first = cluster.shown.waiting[0].job
        for _ in range(100):
            if screen.app.query_one("Listing").selected.key == first:  # type: ignore[attr-defined]
                break
            await screen.until("21 waiting")
            await screen._pilot.pause(0.01)
        assert screen.app.query_one("Listing").selected.key == first  # type: ignore[attr-defined]

    watch(cluster, use)


def test_scrolling_by_keys(cluster: StillCluster) -> None:
    async def use(screen: Watched) -> None:
        listing = screen.app.query_one("Listing")
        keys = [job.job for job in cluster.shown.waiting] + [job.job for job in cluster.shown.running]
        await screen.press("G")
        assert listing.selected.key == keys[-1]  # type: ignore[attr-defined]
        assert "vision/small" in screen.lines()[-2]
        await screen.press("pageup", "pagedown", "down")
        assert listing.selected.key == keys[-1]  # type: ignore[attr-defined]
        await screen.press("home", "j", "j", "k")
        assert listing.selected.key == keys[1]  # type: ignore[attr-defined]

    watch(cluster, use)


def test_a_filter_and_its_end(cluster: StillCluster) -> None:
    async def use(screen: Watched) -> None:
        await screen.press("slash", *"q1 2?")
        await screen.until("No row contains 'q1 2?'.", "filter: 'q1 2?'", "Esc clears it")
        await screen.press("escape")
        await screen.until("language/big", gone="filter:")
        await screen.press("slash", *"RUNNING", "enter")
        shown = await screen.until("filter: 'RUNNING'", "vision/small-00")
        assert "vision/more" not in shown

    watch(cluster, use)


def test_pause_and_speed(cluster: StillCluster) -> None:
    pace = HeldPace()

    async def use(screen: Watched) -> None:
        await screen.press("space")
        await screen.until("paused", "space resume")
        assert pace.paused
        await screen.press("space", "plus", "plus", "minus")
        await screen.until("x120")
        assert (pace.paused, pace.speed) == (False, Fraction(120))
        await screen.press(*["minus"] * 12)
        await screen.until("x0.0625")

    watch(cluster, use, pace=pace)


def test_the_heading_says_that_time_is_behind(cluster: StillCluster) -> None:
    pace = HeldPace()

    async def use(screen: Watched) -> None:
        await screen.until("x60")
        pace.late = "x12 of x60, the last cycle took 5.2 s"
        await screen.until("Behind: x12 of x60, the last cycle took 5.2 s")
        pace.late = None
        await screen.until("x60", gone="Behind")
        pace.paused, pace.late = True, "x1 of x60"
        await screen.until("paused", gone="Behind")

    watch(cluster, use, pace=pace)


def test_help_and_the_end(cluster: StillCluster) -> None:
    async def use(screen: Watched) -> None:
        await screen.press("question_mark")
        await screen.until("double or halve", "dominant share")
        await screen.press("q")
        await screen.until("JOB", gone="double or halve")
        await screen.press("q")

    assert watch(cluster, use).return_code == 0


def test_what_fails_below_ends_the_screen_and_is_kept_for_the_command(cluster: StillCluster) -> None:
    pace = HeldPace()

    async def use(screen: Watched) -> None:
        pace.failure = OSError("disk full")
        while screen.app.failure is None:
            await screen._pilot.pause(0.01)

    with pytest.raises(OSError, match="disk full"):
        watch(cluster, use, pace=pace)


def test_an_empty_cluster_has_a_screen_too() -> None:
    async def use(screen: Watched) -> None:
        await screen.until("0 nodes", "No jobs. Submit one from another terminal: fairway apply")
        await screen.press("3")
        await screen.until("No nodes.")
        await screen.press("enter", "down", "pageup", "end")
        await screen.resize(120, 40)
        await screen.until("No nodes.")

    watch(StillCluster(made()), use)


def test_many_jobs_cost_what_is_seen() -> None:
    """Ten thousand rows: only those on the screen are drawn."""
    sandbox = made(node("n", cpu=1))
    frame = after(made(node("n", cpu=1), pod("a", cpu=2)), 5).frame()
    cluster = StillCluster(sandbox)
    cluster.shown = replace(frame, waiting=tuple(replace(frame.waiting[0], job=f"x/{i}") for i in range(10_000)))

    async def use(screen: Watched) -> None:
        await screen.until("10000 waiting", "x/0")
        drawn: list[int] = []
        listing = screen.app.query_one("Listing")
        plain = listing.render_line

        def counted(y: int) -> object:
            drawn.append(y)
            return plain(y)

        listing.render_line = counted  # type: ignore[method-assign,assignment]
        await screen.press("end")
        await screen.until("x/9999")
        assert 0 < len(drawn) < 400

    watch(cluster, use)


def test_a_narrow_screen_keeps_one_line_of_column_names(cluster: StillCluster) -> None:
    async def use(screen: Watched) -> None:
        lines = [line.rstrip() for line in screen.lines()]
        at = next(at for at, line in enumerate(lines) if line.startswith("JOB "))
        assert lines[at].endswith("…")
        assert lines[at + 1].startswith("language/big ")
        assert any(line.startswith("vision/more-00 ") for line in lines), "names are not cut where they need not be"

    watch(cluster, use, size=(50, 30))
