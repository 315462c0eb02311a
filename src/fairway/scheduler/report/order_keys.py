"""Why waiting jobs stand where they stand: every key of every level, plugin by plugin, in the order of comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from fairway.clock import Micros, format_rfc3339
from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
from fairway.scheduler.framework.hooks import KeyText
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.report.waiting_jobs import WaitingJobs
from fairway.state.jobs import LAST

TIE = "tie rule"


class KeyPart(NamedTuple):
    """One comparison on the way from the cluster to a job."""

    level: str
    """queue, namespace or job."""
    of: str
    plugin: str
    """The plugin of the key; `tie rule` where all plugins are equal."""
    key: str
    value: Any
    text: str


class ConsideredJob(NamedTuple):
    job: str
    queue: str
    namespace: str
    position: int
    """In its queue."""
    parts: tuple[KeyPart, ...]


def considered(session: Session) -> list[ConsideredJob]:
    """The jobs that wait after the plan of a session, in order of consideration over all queues."""
    found: list[ConsideredJob] = []
    position, queue = 0, None
    for _, run, _ in WaitingJobs(session).ordered():
        position = position + 1 if run.queue is queue else 1
        queue = run.queue
        run.account.top_priority = run.priority
        parts = tuple(_parts(session, run))
        found.append(ConsideredJob(run.key, run.queue.name, run.namespace, position, parts))
    return sorted(found, key=lambda job: [part.value for part in job.parts])


def _parts(session: Session, run: JobRun) -> Iterator[KeyPart]:
    for queue in reversed(run.queue.ancestry):
        yield from _level(session, "queue", queue, queue.name, _queue_ties(queue))
    account = run.account
    yield from _level(session, "namespace", account, account.namespace, _namespace_ties(account))
    yield from _level(session, "job", run, run.key, _job_ties(run))


def _level(session: Session, level: str, thing: object, name: str, ties: list[KeyText]) -> Iterator[KeyPart]:
    """What each plugin says, in the order of the tiers, then the tie rule."""
    hook = f"{level}_key"
    texts = session.plugins.by_plugin(f"{hook}_texts")
    for plugin, key in session.plugins.by_plugin(hook).items():
        parts = texts[plugin](thing) if plugin in texts else _as_it_is(hook, key(thing))
        for part in parts:
            yield KeyPart(level, name, plugin, *part)
    for part in ties:
        yield KeyPart(level, name, TIE, *part)


def _as_it_is(hook: str, value: Any) -> list[KeyText]:
    """A key of which its plugin says nothing more."""
    return [KeyText(hook, value, repr(value))]


def _queue_ties(queue: QueueAccount) -> list[KeyText]:
    return [_created("created", queue.info.created), KeyText("name", queue.name, queue.name)]


def _namespace_ties(account: NamespaceAccount) -> list[KeyText]:
    return [
        KeyText("weight", -account.weight, str(account.weight)),
        _created("first job created", account.top_created),
        KeyText("name", account.namespace, account.namespace),
    ]


def _job_ties(run: JobRun) -> list[KeyText]:
    created, *name = run.job.order
    return [_created("created", created), KeyText("name", name, run.key)]


def _created(key: str, at: Micros) -> KeyText:
    return KeyText(key, at, "unknown, so last" if at >= LAST else format_rfc3339(at))
