"""Reservation objects in a sandbox: kept over restarts, gone with their job or by an operator, not written by users."""

from pathlib import Path

import pytest

from fairway.api.policy import Policy, parse_policy
from fairway.api.scheduling import Reservation
from fairway.app.sandbox.engine import Sandbox
from fairway.errors import InputError
from fairway.scheduler.plugins.installed import default_registry
from support.contention import reservation
from support.objects import gang, node, pod
from support.sandboxes import after, made, phases, reopened, running_for, story

POLICY = """
actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 60, minStarvingAfter: 1}}, allocate, backfill]
"""
LATER = {"fairway.dev/starving-after": "1h"}


def reserving() -> Policy:
    return parse_policy(POLICY, "test", default_registry().catalog)


def kept(sandbox: Sandbox) -> dict[str, dict[str, str]]:
    """Nodes by pod, of every Reservation object."""
    return {
        thing.metadata.name: {place.pod: place.node for place in thing.spec.places}
        for thing in sandbox.objects()
        if isinstance(thing, Reservation)
    }


def starved(path: Path | str = ":memory:") -> Sandbox:
    """A lone pod and a gang have one node each; both nodes are busy."""
    busy = [pod(f"busy-{name}", node=name, cpu=1, created=0, annotations=running_for("1h")) for name in ("n1", "n2")]
    things = [node("n1", cpu=2), node("n2", cpu=2), busy, pod("big", cpu=2), gang("g", members=1, cpu=2)]
    return after(made(things, path=path, with_policy=reserving()), 70)


def test_each_job_that_starves_has_its_own_until_the_nodes_suffice_no_more() -> None:
    assert kept(starved()) == {"pod-big": {"big": "n1"}}


def test_they_are_the_same_after_a_restart(tmp_path: Path) -> None:
    sandbox = starved(tmp_path / "s.db")
    before = [thing for thing in sandbox.objects() if isinstance(thing, Reservation)]
    sandbox = after(reopened(sandbox), 100)
    assert [thing for thing in sandbox.objects() if isinstance(thing, Reservation)] == before
    assert len(story(sandbox, "reserved")) == 1


def test_an_operator_cancels_one_by_deleting_it(tmp_path: Path) -> None:
    """With a job that may not reserve again: while one starves, the next cycle may reserve for it anew."""
    busy = pod("busy", node="n", cpu=1, created=0, annotations=running_for("1h"))
    sandbox = after(
        made(node("n", cpu=2), busy, pod("big", cpu=2), path=tmp_path / "s.db", with_policy=reserving()), 70
    )
    sandbox.apply([pod("small", cpu=1), pod("big", cpu=2, annotations=LATER)])
    assert phases(after(sandbox, 72))["small"] == "NodeResourceReserved"
    assert sandbox.delete([("Reservation", "default", "pod-big")]) == ["Reservation default/pod-big"]
    sandbox = reopened(after(sandbox, 73))
    assert "pod-big" not in kept(sandbox)
    assert phases(sandbox)["small"] == "running"


def test_it_goes_with_its_job(tmp_path: Path) -> None:
    sandbox = starved(tmp_path / "s.db")
    sandbox.delete([("Job", "default", "big")])
    assert kept(sandbox) == {}
    assert kept(after(sandbox, 71)) == {"g": {"g-0": "n1"}}
    sandbox.delete([("Job", "default", "g")])
    assert kept(reopened(sandbox)) == {}


def test_a_job_that_is_made_again_begins_anew(tmp_path: Path) -> None:
    sandbox = starved(tmp_path / "s.db")
    old = next(thing.metadata.uid for thing in sandbox.objects() if thing.metadata.name == "big")
    sandbox.delete([("Job", "default", "big")])
    sandbox.apply([pod("big", cpu=2)])
    new = next(thing.metadata.uid for thing in sandbox.objects() if thing.metadata.name == "big")
    assert old != new
    assert "pod-big" not in kept(after(sandbox, 72))


def test_no_user_writes_one() -> None:
    sandbox = starved()
    rival = pod("rival", cpu=2)
    sandbox.apply([rival])
    with pytest.raises(InputError, match="Reservation default/pod-rival: only the scheduler writes reservations"):
        sandbox.apply([reservation(rival, ("rival", "n2", "reserved"))])
    assert kept(after(sandbox, 71)) == {"pod-big": {"big": "n1"}}


def test_one_that_files_bring_for_no_job_is_gone_after_the_first_cycle() -> None:
    waits = pod("waits", cpu=2)
    busy = pod("busy", node="n", cpu=1, created=0)
    forged = reservation(waits, ("waits", "n", "reserved"), uid="another")
    assert kept(after(made(node("n", cpu=2), busy, waits, forged, with_policy=reserving()), 1)) == {}


def test_a_scheduled_job_changes_nothing_about_the_uid_of_its_pods(tmp_path: Path) -> None:
    sandbox = starved(tmp_path / "s.db")
    before = {thing.metadata.name: thing.metadata.uid for thing in sandbox.objects()}
    sandbox.apply([pod("big", cpu=2)])
    assert {thing.metadata.name: thing.metadata.uid for thing in reopened(sandbox).objects()} == before
