"""What programs have in common that watch an API server: which of several replicas decides. Spans are in seconds."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Span = Annotated[float, Meta(ge=0, le=86400)]


class LeaderElection(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """One of several replicas decides: the one that holds the lease."""

    enabled: bool = True
    namespace: str = ""
    """Of the lease; "" is the namespace of the service account or of the context."""
    name: str = "fairway"
    duration: Annotated[int, Meta(ge=2, le=3600)] = 15
    renew_deadline: Annotated[int, Meta(ge=1, le=3600)] = 10
    retry: Annotated[int, Meta(ge=1, le=3600)] = 2
