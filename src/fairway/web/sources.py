"""Where pages get what they show."""

from __future__ import annotations

from fairway.app.sandbox.engine import Sandbox
from fairway.app.view.mirror import Mirror
from fairway.app.view.watch import ClusterWatch


def sandbox_watch(sandbox: Sandbox) -> ClusterWatch:
    """A watch that hears of all that the sandbox's scheduler does from now on."""
    watch = ClusterWatch(Mirror(sandbox.policy, sandbox.now), lambda: sandbox.now)
    watch.coming = lambda: sandbox.coming
    sandbox.listen(watch)
    return watch
