"""Which jobs may take part at all: the reasons to wait that have nothing to do with nodes."""

from __future__ import annotations

from fairway.api.scheduling import MAX_QUEUE_DEPTH
from fairway.scheduler.framework.job_run import JobRun, gates_of
from fairway.scheduler.framework.session import Session
from fairway.scheduler.verdict import YES, Reason, Verdict


def admission(session: Session, job: JobRun) -> Verdict:
    """The first thing that keeps a job out, in the order of `Reason`."""
    name = job.job.queue
    verdict = session.outcomes.queue_verdicts.get(name)
    if verdict is None:
        verdict = session.outcomes.queue_verdicts[name] = queue_verdict(session, name)
    if not verdict.ok:
        return verdict
    for verdict in (_namespace_verdict(session, job), _group_verdict(job), session.rules.job_valid(job)):
        if not verdict.ok:
            return verdict
    refused = session.outcomes.refused
    return refused.get(job.job, YES) if job.job_class is None else refused.get(job.job_class, refused.get(job.job, YES))


def queue_verdict(session: Session, name: str) -> Verdict:
    """Whether jobs of this queue may be placed."""
    queues = session.state.queues
    queue = queues[name]
    if not queue.exists:
        return Verdict(False, Reason.QUEUE_NOT_FOUND, detail=f"queue {name} does not exist")
    if queues.in_circle(name):
        names = [above.name for above in queues.ancestors(name)]
        parent = queues[names[-1]].parent
        if parent not in names:
            deep = f"queue {name} is below more queues than the {MAX_QUEUE_DEPTH} levels that a tree may have"
            return Verdict(False, Reason.QUEUE_NOT_FOUND, detail=deep)
        circle = " -> ".join([*names, parent])
        return Verdict(False, Reason.QUEUE_NOT_FOUND, detail=f"the parents of queue {name} go in a circle: {circle}")
    orphan = queues.orphan_of(name)
    if orphan:
        return Verdict(False, Reason.QUEUE_NOT_FOUND, detail=f"queue {orphan}, above {name}, does not exist")
    for above in queues.ancestors(name):
        if not above.open:
            return Verdict(False, Reason.QUEUE_CLOSED, detail=f"queue {above.name} is closed")
    if queue.children:
        children = ", ".join(sorted(queue.children))
        return Verdict(
            False,
            Reason.QUEUE_NOT_LEAF,
            detail=f"queue {name} has children ({children}); jobs run in leaves only",
        )
    return YES


def _namespace_verdict(session: Session, job: JobRun) -> Verdict:
    """Whether its namespace may use its queue, and all that stand above it."""
    queues = session.state.queues
    if not queues.restricted:
        return YES
    place = f"{job.job.queue}/{job.namespace}"
    verdict = session.outcomes.queue_verdicts.get(place)
    if verdict is None:
        labels = session.state.namespaces.labels(job.namespace)
        shut = next((queue.name for queue in queues.ancestors(job.job.queue) if not queue.admits(labels)), "")
        why = f"namespace {job.namespace} may not use queue {shut}"
        verdict = Verdict(False, Reason.NAMESPACE_NOT_ALLOWED, detail=why) if shut else YES
        session.outcomes.queue_verdicts[place] = verdict
    return verdict


def _group_verdict(job: JobRun) -> Verdict:
    if job.job.is_made:
        return YES
    return Verdict(False, Reason.NOT_ENQUEUED, detail=f"its PodGroup {job.key} does not exist")


def gated_verdict(session: Session, job: JobRun) -> Verdict:
    """What a job says of which nothing waits but pods with scheduling gates."""
    verdict = admission(session, job)
    if not verdict.ok:
        return verdict
    return Verdict(False, Reason.SCHEDULING_GATED, detail=gates_of(session.state, job.job))
