"""Sandboxes for tests: of a few objects, driven by hand, kept in a file or nowhere."""

from collections.abc import Iterable
from pathlib import Path

from fairway.api.policy import Policy
from fairway.app.records import SandboxEvent
from fairway.app.sandbox.engine import Sandbox, create
from fairway.app.sandbox.store import Store
from fairway.app.sandbox.world import files_world
from fairway.clock import SECOND
from fairway.scheduler.paranoid import check
from support.engine import flat, policy
from support.objects import NOW

RUN = "sim.fairway.dev/run"


def running_for(span: str) -> dict[str, str]:
    return {RUN: span}


def made(*objects: object, path: Path | str = ":memory:", with_policy: Policy | None = None) -> Sandbox:
    store = Store(str(path))
    create(store, files_world(flat(objects), NOW), with_policy or policy())
    return Sandbox(store)


def reopened(sandbox: Sandbox) -> Sandbox:
    """As after a kill: what was not written is lost, and the file is read again."""
    sandbox.discard()
    return Sandbox(Store(sandbox.path))


def after(sandbox: Sandbox, seconds: float) -> Sandbox:
    """The sandbox, so many seconds after its beginning; everything kept must be true then."""
    sandbox.advance(NOW + int(seconds * SECOND))
    check(sandbox.state, sandbox.policy, sandbox.now)
    return sandbox


def story(sandbox: Sandbox, *kinds: str) -> list[tuple[float, str, str]]:
    """What happened: seconds since the beginning, kind, job."""
    return [
        ((one.at - NOW) / SECOND, one.kind, one.job.removeprefix("default/"))
        for one in sandbox.happenings(10_000)
        if not kinds or one.kind in kinds
    ]


def phases(sandbox: Sandbox) -> dict[str, str]:
    frame = sandbox.frame()
    found = {job.job: job.reason for job in frame.waiting} | {job.job: "running" for job in frame.running}
    found |= {done.job: "finished" for done in sandbox.outcomes(10_000)}
    return {job.removeprefix("default/"): phase for job, phase in found.items()}


def check_lives(happenings: Iterable[SandboxEvent]) -> None:
    """No pod gets a place while it has one, and none that is done gets one again."""
    where: dict[str, str] = {}
    done: set[str] = set()
    for one in happenings:
        for pod, node in one.pods.items():
            if one.kind == "placed":
                assert pod not in where, f"{pod} is placed on {node} while it is on {where[pod]}"
                assert pod not in done, f"{pod} is done and placed again"
                where[pod] = node
            elif one.kind in ("evicted", "deleted"):
                where.pop(pod, None)
            elif one.kind == "finished":
                assert where.pop(pod, node) == node
                done.add(pod)
