"""Whether anything is known about run times: without, `easy` and `conservative` can plan nothing (spec S8.6)."""

from __future__ import annotations

from collections.abc import Iterator

from fairway.api.arguments import AllocateArguments, BackfillArguments, ScaledEstimate
from fairway.api.policy import Policy
from fairway.scheduler.backfill.run_ends import run_ends
from fairway.scheduler.backfill.runtimes import Runtimes
from fairway.scheduler.framework.session import Session
from fairway.state.jobs import FINISHED

NO_RUN_TIMES = (
    "backfill {mode}: {what} has a run time, so nothing can be planned and jobs start wherever they fit; set "
    "activeDeadlineSeconds or the annotation fairway.dev/expected-runtime"
)


def backfill_warnings(policy: Policy) -> Iterator[str]:
    """What the author of a policy should know of its backfill: it depends on workloads that nothing is known of yet."""
    action, allocate = policy.action("backfill"), policy.action("allocate")
    arguments = None if action is None else action.arguments
    if not isinstance(arguments, BackfillArguments):
        return
    mode = arguments.mode
    if arguments.needs_run_times:
        yield (
            f"backfill {mode}: it plans only by run times; where no job has activeDeadlineSeconds or the annotation "
            "fairway.dev/expected-runtime, jobs start wherever they fit"
        )
    if arguments.estimate == "clairvoyant" or isinstance(arguments.estimate, ScaledEstimate):
        yield "backfill: the estimates clairvoyant and scale are for simulations; a real cluster knows no true run time"
    if arguments.keep_head and mode != "easy":
        yield f"backfill: keepHead has no effect with mode {mode}"
    given = None if allocate is None else allocate.arguments
    if isinstance(given, AllocateArguments) and given.blocked == "wait" and arguments.needs_run_times:
        yield f"backfill {mode}: with `blocked: wait` of allocate nothing passes a job that cannot start"


def without_run_times(session: Session) -> str:
    """A warning, if the policy plans by run times and no pod that waits or runs has one; else nothing."""
    arguments, state = session.policy.backfill, session.state
    if arguments is None or not arguments.needs_run_times:
        return ""
    runtimes = Runtimes(state, arguments)
    if run_ends(state, runtimes, session.nodes.snapshot.idle.shape, session.now).known:
        return ""
    tasks = [task for task in state.tasks.values() if task.state not in FINISHED and not task.shape.best_effort]
    if not tasks or any(runtimes.of(task) is not None for task in tasks):
        return ""
    return NO_RUN_TIMES.format(mode=arguments.mode, what="no pod")
