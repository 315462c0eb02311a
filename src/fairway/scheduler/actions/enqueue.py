"""enqueue: let a group in when its queue can admit its minimum.

Whether a job may enter depends on what its queue holds, its capability and the others' guarantees: nothing that an
action before it could change in the same cycle. So it is asked where candidates are gathered (`admission`), and this
action only has to see to it that what those kept out ask for does not count as their queue's request.
"""

from __future__ import annotations

from fairway.api.settings import Arguments
from fairway.scheduler.admission import ADMITTED_PHASES
from fairway.scheduler.session import Session
from fairway.state.queues import add


def enqueue(session: Session, arguments: Arguments) -> None:
    waiting = session.state.waiting
    for signature in waiting.signatures():
        for key, line in signature.lines.items():
            if not key.group or key.phase in ADMITTED_PHASES or not key.valid:
                continue
            if not session.enqueueable(session.job_run(line.entries[0], signature, line)).ok:
                for book in session.queues[key.queue].line:
                    add(book.requested, signature.total, -len(line.entries))
    for job, (signature, entry) in waiting.started.items():
        run = session.job_run(entry, signature)
        if job.group and job.phase not in ADMITTED_PHASES and not session.enqueueable(run).ok:
            for book in run.queue.line:
                add(book.requested, signature.total, -1)
