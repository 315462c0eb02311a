"""`fairway run`: the scheduler on a real cluster. Wiring only: the parts that it connects are in `drive` and `kube`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.app import loader

if TYPE_CHECKING:
    from fairway.app.live.service import LiveScheduler
    from fairway.app.live.settings import RunSettings, read_settings
    from fairway.app.live.viewer_feed import FeedHead

__all__ = [
    "FeedHead",
    "LiveScheduler",
    "RunSettings",
    "read_settings",
]

__getattr__ = loader(
    __name__,
    {
        "FeedHead": "viewer_feed",
        "LiveScheduler": "service",
        "RunSettings": "settings",
        "read_settings": "settings",
    },
)
