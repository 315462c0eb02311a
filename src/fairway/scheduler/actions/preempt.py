"""preempt: inside a queue, jobs that are entitled to it take capacity from others."""

from __future__ import annotations

from fairway.api.arguments import EvictionArguments
from fairway.api.settings import Arguments
from fairway.scheduler.eviction.entitlement import PreemptEntitlement
from fairway.scheduler.eviction.evict import evict_for_claimants
from fairway.scheduler.framework.session import Session


def preempt(session: Session, arguments: Arguments) -> None:
    assert isinstance(arguments, EvictionArguments)
    evict_for_claimants(session, arguments, lambda job, gang: PreemptEntitlement(session, job, gang))
