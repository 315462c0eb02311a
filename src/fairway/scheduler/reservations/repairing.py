"""Capacity for the missing pods of broken gangs (spec S5.5), before anything else is placed.

A gang that has lost pods a short time ago has what they left: pods that were recreated are placed at once, and for
those that are still missing as much as a pod that is left requests is kept free, wherever it fits. What terminating
pods of the gang will leave is not lent to claimants. All that lasts for `gangRepairTimeout`.

Where planned starts are hard or soft (`backfill` with run times) nothing is kept, for that could delay them: there a
broken gang only goes first among the jobs of its queue.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairway.api.arguments import AllocateArguments
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.scheduler.framework.broken import alike, broken_since, is_repaired_by, missing_of
from fairway.scheduler.framework.candidates import admission
from fairway.scheduler.framework.decisions import Step
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.jobs.placing import Placer
from fairway.scheduler.verdict import Reason
from fairway.state.jobs import RUNS, Job, Task, TaskState


def keep_for_broken(session: Session) -> None:
    """For every gang that broke not too long ago, in the order of the tie rule."""
    policy = session.policy
    arguments = policy.arguments("allocate")
    backfill = policy.backfill
    if policy.action("allocate") is None or (backfill is not None and backfill.needs_run_times):
        return
    timeout = (arguments if isinstance(arguments, AllocateArguments) else AllocateArguments()).gang_repair_timeout
    for job in sorted(session.state.broken_gangs, key=lambda job: job.order):
        since = broken_since(job, session.now)
        until = None if since is None else since + timeout * SECOND
        if until is not None and session.now < until:
            session.decisions.rechecks.append(until)
            _keep(session, job, until)


def _keep(session: Session, job: Job, until: Micros) -> None:
    found = session.state.waiting.started.get(job)
    if found is not None:
        template, pending_job = found
        run = session.reservations.awake_jobs.get(job) or session.job_run(pending_job, template)
        verdict = admission(session, run)
        if verdict.ok:
            if not is_repaired_by(job, missing_of(run)) or _place(session, run):
                return
        elif verdict.reason is not Reason.GANG_TOO_FEW_PODS:
            return
    session.outcomes.notes[job] = f"capacity for its missing pods is kept until {format_rfc3339(until)}"
    session.reservations.repairing += [task for task in job.tasks if task.state is TaskState.RELEASING]
    nodes = session.nodes
    for task in _like_missing(job):
        rows = [] if nodes.devices.uses_devices(task.shape) else nodes.kernel.choose(task.shape, 1)
        if rows:
            nodes.write_room(task.shape, rows, 1)


def _place(session: Session, run: JobRun) -> bool:
    """Place what is missing, on what is lent too: the queue had it before."""
    session.reservations.begin(run)  # from here on every action works with this run
    session.rules.lending = session.rules.lends()
    step = Placer(session).step(run)
    session.rules.lending = False
    return step is Step.PLACED


def _like_missing(job: Job) -> Iterator[Task]:
    """For each pod that is neither there nor terminating, one that is left and has its role."""
    left = [task for task in job.tasks if task.state in RUNS]
    have = {**job.ready_by_role()}
    missing = job.minimum - job.ready
    for task in job.tasks:
        if task.state is TaskState.RELEASING:  # its capacity is not free yet
            have[task.traits.role] = have.get(task.traits.role, 0) + 1
            missing -= 1
    for role, least in job.role_minimums:
        for _ in range(least - have.get(role, 0)):
            missing -= 1
            yield alike(left, role)[0]
    for _ in range(missing):
        yield left[0]
