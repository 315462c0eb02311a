"""The check of the state checks: whatever is damaged, it says what is wrong; a sum kept wrong is never passed over."""

from collections.abc import Callable
from typing import Any

import pytest

from fairway.errors import InvariantError
from fairway.state.cluster import ClusterState, Deleted
from fairway.state.invariants import check
from fairway.state.jobs import NOWHERE
from fairway.state.snapshot import Snapshot, snapshot_of
from support import objects as make
from support.engine import state_of

DATA = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}


def whole() -> ClusterState:
    """Something of everything: queues, a gang, lone pods, a foreign pod, a node that is gone, rules between pods."""
    keeps_off = make.anti_affinity("zone", app="web")
    state = state_of(
        make.node("n1", cpu=8, labels={"zone": "a"}),
        make.node("n2", cpu=8, labels={"zone": "b"}),
        make.node("gone", cpu=8),
        make.queue("org"),
        make.queue("q", parent="org"),
        make.priority_class("high", 5),
        make.gang("g", members=2, queue="q", cpu=1, spec={"priorityClassName": "high"}),
        make.pod("runs", node="n1", queue="q", cpu=2, ports=[80], labels={"app": "web"}),
        make.pod("ghost", node="gone", cpu=1),
        make.pod("waits", cpu=1, labels={"app": "web"}, spec=keeps_off),
        make.pod("waits-too", cpu=1, labels={"app": "web"}, spec=keeps_off),
        make.pod("gated", cpu=1, gates=["later"]),
        make.pod("foreign", node="n2", cpu=1, spec={"schedulerName": "other"}),
        make.group("empty"),
        make.made(
            "PersistentVolumeClaim", "data", "default", spec={"accessModes": ["ReadWriteOncePod"], "volumeName": "pv"}
        ),
        make.made("PersistentVolume", "pv", spec={"csi": {"driver": "disk.example.com", "volumeHandle": "d"}}),
        make.pod("writes", node="n1", cpu=1, spec={"volumes": [DATA]}),
    )
    state.apply(Deleted(make.node("gone")))
    snapshot_of(state)
    return state


def task(state: ClusterState, name: str) -> Any:
    return state.tasks[f"default/{name}"]


def _move(state: ClusterState, name: str, node: int) -> None:
    task(state, name).node = node


def _wrong_count(state: ClusterState, name: str) -> None:
    job = task(state, "g-0").job
    setattr(job, name, getattr(job, name) + 1)


def _add(amounts: Any, row: int, by: int = 1) -> None:
    amounts[row] += by


def _swap_ranks(state: ClusterState) -> None:
    ranks = state.nodes.ranks._ranks
    ranks["n1"], ranks["n2"] = ranks["n2"], ranks["n1"]


def _row(state: ClusterState, name: str) -> int:
    return state.nodes.rows[name]


CPU = 0
DAMAGES: list[tuple[str, Callable[[ClusterState], Any]]] = [
    ("key of task", lambda s: s.tasks.__setitem__("default/other", task(s, "runs"))),
    ("whether task default/runs is on a node", lambda s: _move(s, "runs", NOWHERE)),
    ("whether task default/waits is on a node", lambda s: _move(s, "waits", 0)),
    ("both scheduled by Fairway and foreign", lambda s: s.foreign.__setitem__("default/runs", task(s, "runs"))),
    ("does not know its task default/g-0", lambda s: task(s, "g-0").job.tasks.remove(task(s, "g-0"))),
    ("does not know its task default/g-0", lambda s: task(s, "g-0").job.tasks.append(task(s, "g-0"))),
    ("job of lone pod default/runs", lambda s: setattr(task(s, "runs").job, "key", "default/x")),
    ("group default/g of task", lambda s: s.groups.pop("default/g")),
    ("the unknown task", lambda s: s.tasks.pop("default/g-0")),
    ("ready tasks of job default/g", lambda s: _wrong_count(s, "ready")),
    ("pending tasks of job default/g", lambda s: _wrong_count(s, "pending")),
    ("gated tasks of job default/g", lambda s: _wrong_count(s, "gated")),
    ("priority of job default/g", lambda s: _wrong_count(s, "priority")),
    ("what the pods of job default/g say", lambda s: task(s, "g-0").job.hints.clear()),
    ("queue of job default/g", lambda s: setattr(task(s, "g-0").job, "queue", "org")),
    ("key of group", lambda s: s.groups.__setitem__("default/twin", s.groups["default/empty"])),
    ("has neither object nor pods", lambda s: setattr(s.groups["default/empty"], "group", False)),
    ("is marked as a lone pod", lambda s: setattr(s.groups["default/empty"], "alone", True)),
    ("priority classes that are named", lambda s: s.priorities.named.clear()),
    ("rows by name", lambda s: s.nodes.rows.pop("n2")),
    ("the ghost of node gone has no tasks", lambda s: s.nodes.tasks[_row(s, "gone")].clear()),
    ("which offers nothing: ready", lambda s: s.nodes.ready.__setitem__(_row(s, "gone"), True)),
    ("free rows", lambda s: s.nodes._free.append(_row(s, "n1"))),
    ("allocatable", lambda s: s.nodes.alive.__setitem__(_row(s, "n1"), False)),
    ("tasks on node n1", lambda s: s.nodes.tasks[_row(s, "n1")].clear()),
    ("used on node n1", lambda s: s.nodes.used.add(_row(s, "n1"), ((CPU, 1),))),
    ("releasing on node n1", lambda s: s.nodes.releasing.add(_row(s, "n1"), ((CPU, 1),))),
    ("reserved on node n1", lambda s: s.nodes.reserved.add(_row(s, "n1"), ((CPU, 1),))),
    ("foreign on node n2", lambda s: s.nodes.foreign.add(_row(s, "n2"), ((CPU, -1),))),
    ("host ports of node n1", lambda s: s.nodes.ports.clear()),
    ("volumes attached", lambda s: s.volume_use.attached.clear()),
    ("claims in use", lambda s: s.volume_use.holders.clear()),
    ("ranks do not rise", _swap_ranks),
    ("names with a rank", lambda s: s.nodes.ranks._ranks.pop("n2")),
    ("ranked names", lambda s: s.nodes.ranks._names.pop()),
    ("allocated to queue q", lambda s: _add(s.queues["q"].allocated, CPU)),
    ("allocated to namespace default in queue q", lambda s: _add(s.queues["q"].accounts["default"].allocated, CPU)),
    ("tasks of namespace default in queue q", lambda s: setattr(s.queues["q"].accounts["default"], "tasks", 5)),
    ("namespaces with allocations in queue q", lambda s: s.queues["q"].accounts.clear()),
    ("requested by queue q", lambda s: _add(s.queues["q"].requested, CPU, -1)),
    ("children of queue org", lambda s: s.queues["org"].children.clear()),
    ("queues at the top", lambda s: s.queues.top.discard("org")),
    ("jobs that only gates delay", lambda s: s.waiting.gated.clear()),
    ("gated pods", lambda s: s.gates.clear()),
    ("groups without pods", lambda s: s.waiting.empty.clear()),
    ("tasks of shape", lambda s: setattr(task(s, "runs").shape, "tasks", 9)),
    ("terms that match default/runs", lambda s: setattr(task(s, "runs"), "matched", ())),
    ("pods by label app", lambda s: s.terms._postings["app"].clear()),
    (
        "pods that terms match",
        lambda s: s.terms.present.update({term: column * 0 for term, column in s.terms.present.items()}),
    ),
    ("users of terms", lambda s: setattr(next(iter(s.terms._terms.values())), "users", 7)),
    ("terms by key", lambda s: s.terms._by_key.clear()),
    ("shapes that repel terms", lambda s: s.terms.repelling.clear()),
    ("idle of node n1", lambda s: _add(s.derived.kept(Snapshot).idle[CPU], _row(s, "n1"))),
    ("rank of node n2", lambda s: _add(s.derived.kept(Snapshot).rank, _row(s, "n2"))),
    ("the cluster's total", lambda s: _add(s.derived.kept(Snapshot).total, CPU)),
]


def test_a_state_that_nothing_has_damaged_passes() -> None:
    check(whole())


@pytest.mark.parametrize(("what", "damage"), DAMAGES, ids=[f"{i}-{what}" for i, (what, _) in enumerate(DAMAGES)])
def test_what_is_damaged_is_named(what: str, damage: Callable[[ClusterState], Any]) -> None:
    state = whole()
    damage(state)
    with pytest.raises(InvariantError) as error:
        check(state)
    assert what in str(error.value)
