"""Whether anything is known about run times: without, `easy` and `conservative` can plan nothing (semantics 8.6)."""

from __future__ import annotations

from fairway.scheduler.backfill.runtimes import Runtimes
from fairway.scheduler.session import Session
from fairway.state.tasks import FINISHED

NO_RUN_TIMES = (
    "backfill {mode}: {what} has a run time, so nothing can be planned and jobs start wherever they fit; set "
    "activeDeadlineSeconds or the annotation fairway.dev/expected-runtime"
)


def without_run_times(session: Session) -> str:
    """A warning, if the policy plans by run times and no pod that waits or runs has one; else nothing."""
    arguments = session.backfill_arguments
    if arguments is None or not arguments.needs_run_times:
        return ""
    runtimes = Runtimes(session.state, arguments)
    tasks = [task for task in session.state.tasks.values() if task.state not in FINISHED and not task.shape.best_effort]
    if not tasks or any(runtimes.of(task) is not None for task in tasks):
        return ""
    return NO_RUN_TIMES.format(mode=arguments.mode, what="no pod")
