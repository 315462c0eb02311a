"""`FleetSettings`: everything that `fairway fleet` can be told. Spans are in seconds."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairway.app.live.election import LeaderElection, Span


class FleetSettings(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """See the module."""

    kubeconfig: str | None = None
    context: str | None = None
    dry_run: bool = False
    min_interval: Span = 0.05
    """Between two decisions that events started."""
    connections: Annotated[int, Meta(ge=1, le=1000)] = 32
    """Requests that write at the same time."""
    leader_election: LeaderElection = LeaderElection(name="fairway-fleet")
    stall_timeout: Span = 30.0
    """With work pending and no cycle finished for this long, a warning shows the stack; 0: never."""
    unhealthy_after: Span = 300.0
    """With work pending and no cycle finished for this long, `/healthz` fails; 0: never."""
    http_address: str = ":10260"
    """Of /healthz, /readyz and /metrics, as `host:port`; "" serves none."""
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
