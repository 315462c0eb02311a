"""preempt: inside a queue, those who are entitled to it take room from others."""

from __future__ import annotations

from fairway.api.arguments import EvictionArguments
from fairway.api.settings import Arguments
from fairway.scheduler.eviction.entitlement import PreemptEntitlement
from fairway.scheduler.eviction.evict import evict_for_claimants
from fairway.scheduler.framework.session import Session


def preempt(session: Session, arguments: Arguments) -> None:
    assert isinstance(arguments, EvictionArguments)
    evict_for_claimants(session, arguments, lambda job, gang: PreemptEntitlement(session, job, gang))
