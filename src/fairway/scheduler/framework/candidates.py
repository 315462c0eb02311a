"""Which jobs an action has to look at, each equivalence class represented by its first.

A template whose tasks fit nowhere keeps all its classes out at once, however many jobs are in them.

Jobs that were evicted for outliving their expected run time, and the jobs that they come after (spec S8.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from fairway.api.scheduling import MAX_QUEUE_DEPTH
from fairway.scheduler.framework.job_run import JobRun, gates_of
from fairway.scheduler.framework.reservation_ledger import shapes_of
from fairway.scheduler.framework.session import Session
from fairway.scheduler.placement.kernel import Kernel
from fairway.scheduler.verdict import YES, Reason, Verdict, held_by_group
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, Generations, same
from fairway.state.jobs import Job
from fairway.state.queues import ROOT_QUEUE, QueueTree
from fairway.state.shapes import Shape
from fairway.state.topology import TopologyRequest
from fairway.state.waiting import ADMITTED_PHASES, EquivalenceClass, GangTemplate, PendingJob


def admission(session: Session, job: JobRun) -> Verdict:
    """The first thing that keeps a job out, in the order of `Reason`."""
    verdict = queue_verdict(session, job.job.queue)
    if not verdict.ok:
        return verdict
    if session.state.queues.restricted:
        verdict = _namespace_verdict(session, job)
        if not verdict.ok:
            return verdict
    if job.job.held:
        return Verdict(False, Reason.SCHEDULING_GATED, detail=held_by_group(job.key))
    if not job.job.is_made:
        return Verdict(False, Reason.NOT_ENQUEUED, detail=f"its PodGroup {job.key} does not exist")
    if job.job.topology is not None:
        verdict = _topology_verdict(session, job, job.job.topology)
        if not verdict.ok:
            return verdict
    verdict = session.rules.job_valid(job)
    if not verdict.ok:
        return verdict
    refused = session.outcomes.refused
    if not refused:
        return YES
    return refused.get(job.job, YES) if job.job_class is None else refused.get(job.job_class, refused.get(job.job, YES))


def _topology_verdict(session: Session, job: JobRun, request: TopologyRequest) -> Verdict:
    """A job that asks for what cannot be given waits: placed anywhere, it would run without what it needs."""
    if request.not_honoured:
        why = f"{request.not_honoured} is not supported yet; the job stays pending rather than being placed without it"
        return Verdict(False, Reason.TOPOLOGY_NOT_SUPPORTED, detail=why)
    if request.whole:
        pods = job.job.ready + sum(run.size for run in job.template.runs)
        if pods > job.minimum:
            why = (
                f"spec.subGroupPolicy of its PodGroup is supported only for jobs that start with all of their pods; "
                f"the minimum of this one is {job.minimum} of {pods}"
            )
            return Verdict(False, Reason.TOPOLOGY_NOT_SUPPORTED, detail=why)
    if request.tier_name and session.state.hyper_nodes.tier_named(request.tier_name) is None:
        why = f"no HyperNode has the tierName {request.tier_name!r} that its networkTopology.highestTierName names"
        return Verdict(False, Reason.TOPOLOGY_NOT_SUPPORTED, detail=why)
    return YES


def is_let_in(session: Session, job: JobRun) -> bool:
    """Whether a group is admitted after this cycle: then its controller may create its pods. Where the policy does not
    enqueue, all are that their queue takes.
    """
    if job.job.phase in ADMITTED_PHASES:
        return True
    refused = session.outcomes.refused
    return (
        not job.job.held
        and job.job not in refused
        and (job.job_class is None or job.job_class not in refused)
        and queue_verdict(session, job.job.queue).ok
        and (not session.state.queues.restricted or _namespace_verdict(session, job).ok)
    )


class QueueVerdicts(
    DerivedValue,
    name="queue-verdicts",
    holds="whether jobs of a queue may be placed",
    inputs=("queues",),
    saves="the walk up the tree for each queue with a pending job",
):
    """Whether jobs of a queue may be placed, by name, once asked for: so long as queues stay as they are described."""

    def __init__(self, queues: QueueTree) -> None:
        super().__init__()
        self._queues = queues
        self.known: dict[str, Verdict] = {}

    @classmethod
    def make(cls, state: ClusterState) -> QueueVerdicts:
        return cls(state.queues)

    def generations(self) -> Generations:
        return (self._queues.generation,)

    def rebuild(self) -> None:
        self.known = {}

    def check(self) -> None:
        self.sync()
        same("verdicts of queues", self.known, {name: _queue_verdict(self._queues, name) for name in self.known})


def queue_verdict(session: Session, name: str) -> Verdict:
    """Whether jobs of this queue may be placed."""
    found = session.outcomes.queue_verdicts.get(name)
    if found is not None:
        return found
    queues = session.state.queues
    kept = session.state.derived.get(QueueVerdicts)
    kept.sync()
    verdict = kept.known.get(name)
    if verdict is None:
        verdict = kept.known[name] = _queue_verdict(queues, name)
    session.outcomes.queue_verdicts[name] = verdict
    return verdict


def _queue_verdict(queues: QueueTree, name: str) -> Verdict:
    queue = queues[name]
    if name == ROOT_QUEUE:
        return Verdict(
            False, Reason.QUEUE_NOT_LEAF, detail="queue root is the root of all queues; jobs can only be in leaf queues"
        )
    if not queue.exists:
        return Verdict(False, Reason.QUEUE_NOT_FOUND, detail=f"queue {name} does not exist")
    if queues.in_circle(name):
        names = [above.name for above in queues.ancestors(name)]
        parent = queues[names[-1]].parent
        if parent not in names:
            deep = f"queue {name} is nested deeper than {MAX_QUEUE_DEPTH} levels"
            return Verdict(False, Reason.QUEUE_NOT_FOUND, detail=deep)
        circle = " -> ".join([*names, parent])
        return Verdict(False, Reason.QUEUE_NOT_FOUND, detail=f"the parents of queue {name} form a cycle: {circle}")
    orphan = queues.orphan_of(name)
    if orphan:
        return Verdict(False, Reason.QUEUE_NOT_FOUND, detail=f"queue {orphan}, an ancestor of {name}, does not exist")
    for above in queues.ancestors(name):
        if not above.open:
            return Verdict(False, Reason.QUEUE_CLOSED, detail=f"queue {above.name} is closed")
    if queue.children:
        children = ", ".join(sorted(queue.children))
        return Verdict(
            False,
            Reason.QUEUE_NOT_LEAF,
            detail=f"queue {name} has children ({children}); jobs can only be in leaf queues",
        )
    return YES


def _namespace_verdict(session: Session, job: JobRun) -> Verdict:
    """Whether its namespace may use its queue, and all that stand above it."""
    queues = session.state.queues
    place = (job.job.queue, job.namespace)
    verdict = session.outcomes.namespace_verdicts.get(place)
    if verdict is None:
        labels = session.state.namespaces.labels(job.namespace)
        shut = next((queue.name for queue in queues.ancestors(job.job.queue) if not queue.admits(labels)), "")
        why = f"namespace {job.namespace} may not use queue {shut}"
        verdict = Verdict(False, Reason.NAMESPACE_NOT_ALLOWED, detail=why) if shut else YES
        session.outcomes.namespace_verdicts[place] = verdict
    return verdict


def gated_verdict(session: Session, job: JobRun) -> Verdict:
    """What a job says of which nothing waits but pods with scheduling gates."""
    verdict = admission(session, job)
    if not verdict.ok:
        return verdict
    return Verdict(False, Reason.SCHEDULING_GATED, detail=gates_of(session.state, job.job))


_EVICTED = Verdict(
    False, Reason.GANG_NOT_READY, detail="some of its pods are evicted in this cycle; the next cycle considers it again"
)


def candidates(session: Session) -> list[JobRun]:
    """The first job of every class that may be placed, and every started job that waits for more.

    What fits on no node is left out, whether it has started or not: it does not count as the head of its namespace
    either, which ties between namespaces look at.
    """
    parking = session.nodes.kernel.parking
    parking.look(session.state.waiting, session.nodes.snapshot, session.nodes.kernel.reserved)
    found: list[JobRun] = []
    started: list[tuple[GangTemplate, PendingJob]] = []
    for template in _in_turn(session, list(parking.active)):
        classes = [job_class for job_class in template.classes.values() if not is_for_backfill(job_class)]
        if not classes and not template.started:
            continue
        if is_put_off(session, template):
            continue
        if not has_capacity(session, template) and _only_gets_less(template):
            session.outcomes.no_capacity.add(template)
            if _may_park(session, template):
                parking.park(template)
                continue
        else:
            found.extend(_admitted(session, _heads(session, classes)))
        started.extend((template, pending_job) for pending_job in template.started.values())
    session.outcomes.parked = parking.parked()
    _wake_helped(session)
    return [*found, *_admitted(session, _started(session, started))]


def _in_turn(session: Session, templates: list[GangTemplate]) -> Iterable[GangTemplate]:
    return templates if session.effort is None else session.effort.in_turn(templates)


def is_put_off(session: Session, template: GangTemplate) -> bool:
    """Whether a template has to wait for a later cycle, because its namespaces have cost enough in this one. A look at
    it is charged to them.
    """
    effort = session.effort
    if effort is None or effort.admits(template):
        return False
    record_put_off(session, template)
    return True


def record_put_off(session: Session, template: GangTemplate) -> None:
    assert session.effort is not None
    verdict = session.effort.verdicts[template]
    for job_class in template.classes.values():
        session.outcomes.classes.setdefault(job_class, verdict)
    for pending_job in template.started.values():
        if not session.reservations.is_reserving(pending_job.job):
            session.outcomes.put_off[pending_job.job] = template


def _wake_helped(session: Session) -> None:
    """Standing jobs of which a pod fits on some node now are tried like others."""
    reservations, kernel = session.reservations, session.nodes.kernel
    if not reservations.standing:
        return
    helped = {shape for shape in shapes_of(reservations.standing.values()) if _fits_somewhere(kernel, shape)}
    if helped:
        reservations.wake([job for job, known in reservations.standing.items() if not helped.isdisjoint(known.shapes)])


def _fits_somewhere(kernel: Kernel, shape: Shape) -> bool:
    return may_fit(shape, kernel.max_idle(shape)) and kernel.has_capacity(shape)


def _may_park(session: Session, template: GangTemplate) -> bool:
    """Whether nothing but a change of a node can help a template that fits nowhere. Hooks that order, refuse or count
    jobs cannot, whatever plugin they are of; hooks about nodes must say what they rest on."""
    shapes = [run.shape for run in template.runs]
    return (
        bool(shapes)
        and session.plugins.keeps_columns
        and not any(shape.best_effort or shape.has_pod_rules or shape.volumes.unbound for shape in shapes)
        and not any(map(session.nodes.devices.uses_devices, shapes))
    )


def _started(session: Session, started: Iterable[tuple[GangTemplate, PendingJob]]) -> Iterator[JobRun]:
    """Of these jobs, which are partly placed, and of those that reserve. One that was just evicted waits for the next
    cycle: what it has left is not known to be enough.
    """
    gone, reservations = session.decisions.evicted_jobs(), session.reservations
    if gone:
        reservations.wake()
    for job in sorted(gone & session.state.waiting.started.keys(), key=lambda job: job.order):
        template, pending_job = session.state.waiting.started[job]
        session.outcomes.jobs[reservations.awake_jobs.get(job) or session.job_run(pending_job, template)] = _EVICTED
    for template, pending_job in started:
        if pending_job.job not in gone and not reservations.is_reserving(pending_job.job):
            yield session.job_run(pending_job, template)
    for run in reservations.awake_jobs.values():
        if run.job not in gone and (run.left() or reservations.of(run)):
            yield run


def first_of_each_class(session: Session) -> list[JobRun]:
    """The first job of every class, whether or not anything of its kind fits now, and every started job."""
    session.reservations.wake()
    classes = [
        job_class
        for template in _in_turn(session, session.state.waiting.templates())
        if not is_put_off(session, template)
        for job_class in template.classes.values()
        if not is_for_backfill(job_class)
    ]
    started = _not_put_off(session, session.state.waiting.started.values())
    return list(_admitted(session, chain(_heads(session, classes), _started(session, started))))


def _not_put_off(
    session: Session, started: Iterable[tuple[GangTemplate, PendingJob]]
) -> Iterator[tuple[GangTemplate, PendingJob]]:
    for template, pending_job in started:
        if session.effort is None or template not in session.effort.verdicts:
            yield template, pending_job


def every_job(session: Session) -> list[JobRun]:
    """Every waiting job by itself, whether or not anything of its kind has free capacity now."""
    session.reservations.wake()
    found: list[JobRun] = []
    for template in _in_turn(session, session.state.waiting.templates()):
        if is_put_off(session, template):
            continue
        for job_class in template.classes.values():
            if not is_for_backfill(job_class):
                _add_every_job(session, job_class, found)
    started = _not_put_off(session, session.state.waiting.started.values())
    found += _admitted(session, _started(session, started))
    return found


def _add_every_job(session: Session, job_class: EquivalenceClass, found: list[JobRun]) -> None:
    """Where enqueue refuses nothing, and no external plugin has a say, the first valid job that is admitted shows that
    all of its class are.
    """
    template, reserving, refused = job_class.template, session.reservations.reserving_jobs, session.outcomes.refused
    if job_class in refused:
        session.outcomes.classes[job_class] = refused[job_class]
        return
    jobs = [
        session.job_run(pending_job, template) for pending_job in job_class.jobs if pending_job.job not in reserving
    ]
    alike = session.order.can_group_equivalent_jobs and job_class.key.valid and not refused
    if alike and jobs and admission(session, jobs[0]).ok:
        found += jobs
    else:
        found += _admitted(session, jobs)


def best_effort_candidates(session: Session) -> list[JobRun]:
    """The first pod of every class of lone BestEffort pods."""
    found: list[JobRun] = []
    for template in session.state.waiting.best_effort:
        classes = [job_class for job_class in template.classes.values() if is_for_backfill(job_class)]
        if not classes or is_put_off(session, template):
            continue
        if has_capacity(session, template) or not _only_gets_less(template):
            found.extend(_admitted(session, _heads(session, classes)))
        else:
            session.outcomes.no_capacity.add(template)
    return found


def has_capacity(session: Session, template: GangTemplate) -> bool:
    """Whether at least one task of the template fits somewhere."""
    kernel = session.nodes.kernel
    for run in template.runs:
        shape = run.shape
        if may_fit(shape, kernel.max_idle(shape)) and kernel.has_capacity(shape):
            return True
    return False


def may_fit(shape: Shape, max_idle: list[int]) -> bool:
    """Whether a shape asks for no more of anything than one node at most has free."""
    for row, amount in shape.vector:  # noqa: SIM110 - asked of everything that waits
        if amount > max_idle[row]:
            return False
    return True


def feasibility_is_monotone(shape: Shape) -> bool:
    """Whether capacity for a shape can only get less as others are placed. Affinity to pods can make it more."""
    return not shape.rules.affinity and not shape.rules.spread


def _only_gets_less(template: GangTemplate) -> bool:
    """The same for all tasks of a template."""
    for run in template.runs:  # noqa: SIM110 - asked of everything that waits
        if not feasibility_is_monotone(run.shape):
            return False
    return True


def is_for_backfill(job_class: EquivalenceClass) -> bool:
    """Lone BestEffort pods are placed by backfill."""
    return job_class.template.best_effort and not job_class.key.group


def _heads(session: Session, classes: list[EquivalenceClass]) -> Iterator[JobRun]:
    for job_class in classes:
        if not session.order.can_group_equivalent_jobs:
            yield from (session.job_run(pending_job, job_class.template) for pending_job in job_class.jobs)
            continue
        first = next_in_class(session, job_class, 0)
        if first is not None:
            yield first


def next_in_class(session: Session, job_class: EquivalenceClass, position: int) -> JobRun | None:
    """The first job of a class at or behind a position; jobs with reservations, and those that enqueue refused while it
    admitted others of their class, stand for themselves.
    """
    refused = session.outcomes.refused
    for at in range(position, len(job_class.jobs)):
        pending_job = job_class.jobs[at]
        if not session.reservations.is_reserving(pending_job.job) and pending_job.job not in refused:
            return session.job_run(pending_job, job_class.template, job_class, at)
    return None


def _admitted(session: Session, jobs: Iterable[JobRun]) -> Iterator[JobRun]:
    for job in jobs:
        verdict = admission(session, job)
        if verdict.ok:
            yield job
        elif job.job_class is not None:
            session.outcomes.classes[job.job_class] = verdict
        else:
            session.outcomes.jobs[job] = verdict


def comes_after(session: Session, job: Job) -> Job | None:
    """The job that this one was evicted for, if it has not started yet; None if there is none."""
    if job.overrun is None or job.overrun.after is None:
        return None
    claimant = session.state.job_of(*job.overrun.after)
    if (
        claimant is None
        or claimant is job
        or claimant.ready >= claimant.minimum
        or claimant in session.decisions.bound_jobs()
    ):
        return None
    return claimant
