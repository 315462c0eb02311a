"""What the author of a policy should know of its preempt."""

from __future__ import annotations

from collections.abc import Iterator

from fairway.api.arguments import PreemptArguments
from fairway.api.policy import Policy


def preempt_warnings(policy: Policy) -> Iterator[str]:
    """Job shares are compared where drf is in the policy; they may end plain Jobs that tolerate no lost pod."""
    action = policy.action("preempt")
    arguments = None if action is None else action.arguments
    if isinstance(arguments, PreemptArguments) and arguments.by_job_share and policy.plugin("drf") is not None:
        yield (
            "preempt: with byJobShare, a job may lose pods above its minimum to jobs of the same priority that have a "
            "smaller share; a plain Job with backoffLimit 0 fails when it loses a pod: set byJobShare: false where "
            "such jobs run"
        )
