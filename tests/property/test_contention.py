"""The promises of preempt, reclaim and reserve on random full clusters, one cycle at a time.

No node is over-committed; victims are minimal, entitled by protections, and each is evicted for a claimant that gets
the room; guarantees and disruption budgets are kept; reserved nodes take no new pod, and nothing is reserved while a
more important job could run.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, assume, event, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.core import Node
from fairway.api.pods import Pod, pod_request
from fairway.api.policy import Policy
from fairway.api.scheduling import PodGroup
from fairway.clock import SECOND
from fairway.resources.algebra import Resource
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.eviction.protections import DisruptionBudgets
from fairway.scheduler.eviction.victims import Unit, units_of
from fairway.scheduler.paranoid import check
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.state.cluster import ClusterState, Deleted, Upserted
from fairway.state.jobs import ON_NODE, TaskState
from support.contended import contended, evicting_policies
from support.contention import DAY, acting, cycle, nominated, reserved
from support.effort import examples
from support.engine import flat, policy, state_of
from support.objects import BEGIN

some = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

RESERVE = ("reserve", {"starvingJobTimeThreshold": 1, "reservedNodePercent": 60})


@st.composite
def all_actions(draw: st.DrawFn) -> Any:
    evicting = draw(st.sampled_from((("preempt",), ("reclaim",), ("preempt", "reclaim"), ())))
    return acting("enqueue", RESERVE, "allocate", *evicting, "backfill", drf={"priorityFirst": draw(st.booleans())})


@dataclass(frozen=True)
class Case:
    """A cluster, and the plan of its first cycle. Several promises are checked on one case: to draw and decide it costs
    more than to check them.
    """

    objects: list[Any]
    policy: Policy
    state: ClusterState
    plan: Plan
    plain: bool = False


def decided(objects: list[Any], policy: Policy, *, plain: bool = False) -> Case:
    state, now = state_of(objects), BEGIN + DAY * SECOND
    plan = (decide if policy.action("preempt") else decide_and_explain)(
        state, policy, now
    )  # queues are read of reclaim
    check(state, policy, now)
    return Case(objects, policy, state, plan, plain)


def over_committed(state: ClusterState, plan: Plan) -> list[str]:
    """Nodes that hold more than they have once the plan is carried out: pods, bindings and reservations with room."""
    held: dict[str, Counter[int]] = {name: Counter() for name in state.nodes.rows}
    ports: dict[str, list[Any]] = {name: [] for name in state.nodes.rows}
    placed = {(binding.pod, binding.node) for binding in plan.bindings}
    placed |= {(entry.pod, entry.node) for entry in plan.reservations if entry.state == "allocated"}
    for task in [*state.tasks.values(), *state.foreign.values()]:
        if task.state in ON_NODE - {TaskState.ALLOCATED}:
            placed.add((task.key, state.nodes.names[task.node]))
    for pod, node in placed:
        task = state.tasks.get(pod) or state.foreign[pod]
        held[node].update(dict(task.shape.vector))
        ports[node] += task.shape.ports
    return [
        name
        for name, amounts in held.items()
        for whole in [dict(state.nodes.allocatable.at(state.nodes.rows[name]))]
        if any(amount > whole.get(dimension, 0) for dimension, amount in amounts.items())
        or len(ports[name]) != len(set(ports[name]))
    ]


def no_node_is_over_committed(case: Case) -> None:
    state, plan = case.state, case.plan
    assert over_committed(state, plan) == []
    promised: dict[str, Counter[int]] = {}
    for entry in plan.reservations:
        promised.setdefault(entry.node, Counter()).update(dict(state.tasks[entry.pod].shape.vector))
    for node, amounts in promised.items():
        whole = dict(state.nodes.allocatable.at(state.nodes.rows[node]))
        assert all(amount <= whole.get(dimension, 0) for dimension, amount in amounts.items()), node


# -- victims ------------------------------------------------------------------------------------------------------


def victims_of(state: ClusterState, plan: Plan) -> list[Unit]:
    """The units that the plan evicts."""
    gone = {eviction.pod for eviction in plan.evictions}
    jobs = {state.tasks[pod].job for pod in gone}
    return [unit for job in jobs for unit in units_of(job) if {task.key for task in unit.tasks} <= gone]


def key_of(thing: Any) -> str:
    return f"{thing.metadata.namespace}/{thing.metadata.name}"


def job_of(thing: Any) -> str:
    if isinstance(thing, PodGroup):
        return key_of(thing)
    group = thing.metadata.annotations.get("scheduling.k8s.io/group-name")
    return f"{thing.metadata.namespace}/{group}" if group else key_of(thing)


def only_claimant(objects: list[Any], claimant: str) -> list[Any]:
    """The cluster without the others who wait."""
    return [
        thing for thing in objects if not isinstance(thing, Pod) or thing.spec.node_name or job_of(thing) == claimant
    ]


def places_without(objects: list[Any], claimant: str, gone: set[str], count: int = 1) -> bool:
    """Whether so many pods of the claimant can be placed with these pods gone, whatever its queue says."""
    left = [thing for thing in objects if not isinstance(thing, Pod) or key_of(thing) not in gone]
    plugins = ("priority", "gang", "predicates", "nodeorder")
    plan = decide(state_of(left), policy(actions="allocate", plugins=plugins), BEGIN + DAY * SECOND)
    return sum(binding.job == claimant for binding in plan.bindings) >= count


def no_victim_can_be_spared(case: Case) -> None:
    """Put any unit back, and not all that the claimant is nominated for can be placed: its gang, and the pods above its
    minimum that it claims one by one. Looked at where there is one claimant.
    """
    state, plan = case.state, case.plan
    claimants = {eviction.for_ for eviction in plan.evictions}
    if len(claimants) != 1 or plan.placed:
        return
    (claimant,) = claimants
    if state.queues[state.tasks[plan.evictions[0].pod].job.queue].capability != {}:
        return
    event("one claimant, whose victims are counted")
    alone = only_claimant(case.objects, claimant)
    gone = {eviction.pod for eviction in plan.evictions}
    note(f"{claimant} evicts {sorted(gone)}")
    count = sum(state.tasks[entry.pod].job.key == claimant for entry in plan.nominations)
    assert places_without(alone, claimant, gone, count)
    units = victims_of(state, plan)
    assert {task.key for unit in units for task in unit.tasks} == gone
    for unit in units:
        if not any(unit in gang.surplus_units for gang in units):
            assert not places_without(alone, claimant, gone - {task.key for task in unit.tasks}, count), unit


def no_victim_can_be_spared_over_the_whole_plan(case: Case) -> None:
    """However many claimants there are: with one unit back, and all others placed as the plan says, its claimant's
    gang cannot be placed, or the unit has no capacity left where it was. What goes for a limit of a queue, or for a
    job that claims one pod after the other, is left out: see the scenarios.
    """
    state, plan = case.state, case.plan
    claimants = {eviction.pod: eviction.for_ for eviction in plan.evictions}
    if len(set(claimants.values())) < 2 or any("would exceed" in eviction.reason for eviction in plan.evictions):
        return
    event("several claimants, whose victims are counted")
    priority_first = _drf(case.policy)["priorityFirst"]
    gained = {(state.tasks[entry.pod].job.queue, state.tasks[entry.pod].job.namespace) for entry in plan.nominations}
    jobs = {job.key: job for job in state.jobs()}
    units = victims_of(state, plan)
    for unit in units:
        claimant = claimants[unit.tasks[0].key]
        rests = {(unit.job.queue, unit.job.namespace)} & gained or unit.job.queue in {queue for queue, _ in gained}
        if jobs[claimant].ready >= jobs[claimant].minimum or (rests and len(gained) > 1):
            continue
        if any(
            jobs[other].queue == unit.job.queue
            and jobs[other].namespace == unit.job.namespace
            and victim.job.namespace != unit.job.namespace
            and not (priority_first and victim.priority < jobs[other].priority)
            for victim in units
            for other in [claimants[victim.tasks[0].key]]
            if other != claimant
        ):
            continue  # that one was entitled by the share that its namespace has without the unit
        if not any(unit in gang.surplus_units for gang in units):
            back = {task.key for task in unit.tasks}
            after = after_plan(case.objects, state, plan, claimant, back)
            assert not (fits(after) and places_without(after, claimant, set())), (unit, claimant)


def fits(objects: list[Any]) -> bool:
    """Whether no node has more on it than it can take."""
    used: dict[str, Counter[str]] = {}
    slot = Resource.parse({"pods": 1}).amounts
    for pod in objects:
        if isinstance(pod, Pod) and pod.spec.node_name:
            used.setdefault(pod.spec.node_name, Counter()).update({**pod_request(pod.spec).amounts, **slot})
    nodes = {thing.metadata.name: thing for thing in objects if isinstance(thing, Node)}
    sizes = {name: Resource.parse(node.status.allocatable or {}).amounts for name, node in nodes.items()}
    return all(amount <= sizes[node].get(name, 0) for node, amounts in used.items() for name, amount in amounts.items())


def after_plan(objects: list[Any], state: ClusterState, plan: Plan, claimant: str, back: set[str]) -> list[Any]:
    """The cluster when the plan is carried out, but for the claimant, which waits, and for some who are not evicted."""
    gone = {eviction.pod for eviction in plan.evictions} - back
    nodes = {entry.pod: entry.node for entry in (*plan.bindings, *plan.nominations)}  # type: ignore[attr-defined]
    found: list[Any] = []
    for thing in flat(objects):
        if not isinstance(thing, Pod):
            found.append(thing)
            continue
        key, mine = key_of(thing), job_of(thing) == claimant
        claims = any(entry.pod == key for entry in plan.nominations) and mine
        if thing.spec.node_name:
            found += [] if key in gone else [thing]
        elif claims:
            found.append(thing)
        elif key in nodes:
            spec = replace(thing.spec, node_name=nodes[key])
            found.append(replace(thing, spec=spec, status=replace(thing.status, phase="Running")))
    return found


def jobs_lose_their_surplus_or_everything(case: Case) -> None:
    """Counted with what the same plan binds: a gang of which members are bound is never evicted below its minimum."""
    state, plan = case.state, case.plan
    lost = Counter(state.tasks[eviction.pod].job for eviction in plan.evictions)
    bound = Counter(state.tasks[binding.pod].job for binding in plan.bindings)
    for job, count in lost.items():
        running = [task for task in job.tasks if task.state in (TaskState.RUNNING, TaskState.BOUND)]
        kept = len(running) - count + bound[job]
        assert kept == 0 or kept >= min(job.minimum, len(running)), job


def every_eviction_has_a_claimant_that_gets_the_room(case: Case) -> None:
    """Victims are gone in the next cycle: then every claimant is bound, and no pod came between. This carries the plan
    out, and comes last.
    """
    state, plan = case.state, case.plan
    if not plan.evictions:
        return
    event("evictions")
    pods = {key_of(thing): thing for thing in flat(case.objects) if isinstance(thing, Pod)}
    claimants = {eviction.for_ for eviction in plan.evictions}
    nominees = {entry.pod: entry for entry in plan.nominations}
    assert claimants <= {state.tasks[pod].job.key for pod in nominees}
    for binding in plan.bindings:
        pod = pods[binding.pod]
        state.apply(Upserted(replace(pod, spec=replace(pod.spec, node_name=binding.node))))
    for pod, entry in nominees.items():  # type: ignore[assignment]
        state.apply(Upserted(nominated(pods[pod], entry.node)))  # type: ignore[index]
    for eviction in plan.evictions:
        state.apply(Deleted(pods[eviction.pod]))
    following = cycle(state, case.policy)
    bound = {binding.pod: binding.node for binding in following.bindings}
    assert nominees.keys() <= bound.keys()
    assert over_committed(state, following) == []


def protections_and_budgets_are_kept(case: Case) -> None:
    state, plan = case.state, case.plan
    allowed = DisruptionBudgets(state)
    tasks = [state.tasks[eviction.pod] for eviction in plan.evictions]
    assert allowed.allow(tasks)
    assert len({task.key for task in tasks}) == len(tasks)
    for task in tasks:
        assert task.traits.preemptable
        assert (task.job.annotations or {}).get("fairway.dev/never-evict") != "true"
        assert task.state in (TaskState.RUNNING, TaskState.BOUND)
    for eviction, task in zip(plan.evictions, tasks, strict=True):
        assert eviction.for_ != task.job.key
        claimant = next(other for other in state.jobs() if other.key == eviction.for_)
        assert (claimant.queue == task.job.queue) is (eviction.action == "preempt")


def reclaim_leaves_every_queue_its_guarantee_and_takes_within_what_is_deserved(case: Case) -> None:
    """Where nothing but reclaim evicts."""
    state, plan = case.state, case.plan
    if case.policy.action("preempt") is not None:
        return
    gained: dict[str, Counter[int]] = {}
    lost: dict[str, Counter[int]] = {}
    for eviction in plan.evictions:
        task = state.tasks[eviction.pod]
        lost.setdefault(task.job.queue, Counter()).update(dict(task.shape.vector))
    for pod in {entry.pod for entry in plan.nominations}:
        task = state.tasks[pod]
        gained.setdefault(task.job.queue, Counter()).update(dict(task.shape.vector))
    for name, amounts in lost.items():
        queue = state.queues[name]
        for dimension, guaranteed in queue.guarantee.items():
            if amounts[dimension]:
                assert queue.allocated[dimension] - amounts[dimension] >= guaranteed, name
    assert isinstance(plan, ExplainedPlan)
    for standing in plan.queues:
        deserved = Resource.parse(standing.deserved).amounts
        for dimension, amount in gained.get(standing.name, Counter()).items():
            name = state.axis.names[dimension]
            had = dict(enumerate(state.queues[standing.name].allocated)).get(dimension, 0)
            left = had - lost.get(standing.name, Counter())[dimension]
            assert name == "pods" or left + amount <= deserved.get(name, 0), (standing.name, name)


EVICTION_PROMISES = (
    jobs_lose_their_surplus_or_everything,
    protections_and_budgets_are_kept,
    reclaim_leaves_every_queue_its_guarantee_and_takes_within_what_is_deserved,
    no_victim_can_be_spared,
    no_victim_can_be_spared_over_the_whole_plan,
    every_eviction_has_a_claimant_that_gets_the_room,
)


@some
@given(contended(), evicting_policies())
def test_evictions_are_needed_and_allowed_and_serve_their_claimants(objects, policy):
    case = decided(objects, policy)
    for promise in EVICTION_PROMISES:
        promise(case)


# -- reservations -------------------------------------------------------------------------------------------------


def nothing_is_reserved_while_a_more_important_job_could_run(case: Case) -> None:
    """Looked at where only amounts decide who fits where."""
    state, plan = case.state, case.plan
    if not case.plain or not plan.reservations:
        return
    event("reservations, nothing but amounts decides")
    without = decided(case.objects, acting("enqueue", "allocate", drf=_drf(case.policy))).plan
    placed = max((state.tasks[binding.pod].job.priority for binding in without.bindings), default=None)
    for entry in plan.reservations:
        if placed is not None:
            assert state.tasks[entry.pod].job.priority >= placed, entry


def _drf(policy: Any) -> dict[str, Any]:
    drf = next(plugin for plugin in policy.plugins() if plugin.name == "drf")
    return {"priorityFirst": drf.arguments.priority_first}


def reservations_make_their_jobs_ready_and_keep_to_the_limit(case: Case) -> None:
    state, plan = case.state, case.plan
    freed = {entry.pod for entry in plan.nominations}  # for some of a gang pods may be evicted, for others not
    for name in {entry.job for entry in plan.reservations}:
        job = next(other for other in state.jobs() if other.key == name)
        places = {entry.pod for entry in plan.reservations if entry.job == name}
        places |= freed & {task.key for task in job.tasks}
        assert job.ready + len(places) >= job.minimum, name
        assert job.ready < job.minimum, name
    nodes = {entry.node for entry in plan.reservations}
    ready = int((state.nodes.ready & state.nodes.schedulable & state.nodes.alive).sum())
    assert len(nodes) <= -(-ready * 60 // 100)


RESERVATION_PROMISES = (
    no_node_is_over_committed,
    nothing_is_reserved_while_a_more_important_job_could_run,
    reservations_make_their_jobs_ready_and_keep_to_the_limit,
)


@some
@given(st.data(), st.booleans(), all_actions())
def test_reservations_fit_and_keep_to_their_limits(data, plain, policy):
    case = decided(data.draw(contended(plain=plain)), policy, plain=plain)
    for promise in RESERVATION_PROMISES:
        promise(case)


@some
@given(contended(), all_actions(), st.data())
def test_a_reserved_node_takes_no_new_pod_but_its_own(objects, policy, data):
    """One waiting pod has a node reserved; whatever the actions do, no other pod with requests comes there."""
    lone = [thing for thing in objects if isinstance(thing, Pod) and job_of(thing) == key_of(thing)]
    pending = [pod for pod in lone if not pod.spec.node_name]
    assume(pending)
    owner = data.draw(st.sampled_from(pending))
    nodes = [thing.metadata.name for thing in objects if type(thing).__name__ == "Node"]
    node = data.draw(st.sampled_from(nodes))
    held = reserved(owner, (owner.metadata.name, node, "reserved"))
    state = state_of([held if thing is owner else thing for thing in objects])
    plan = cycle(state, policy)
    standing = [entry for entry in plan.reservations if entry.pod == key_of(owner)]
    assume(standing and standing[0].node == node and standing[0].state == "reserved")
    assume(not plan.released)
    for entry in [*plan.bindings, *plan.nominations]:
        assert entry.node != node or state.tasks[entry.pod].shape.best_effort, entry  # type: ignore[attr-defined]
