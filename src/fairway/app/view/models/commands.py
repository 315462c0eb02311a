"""Requests and answers of the other commands of `fairway` to a sandbox."""

from __future__ import annotations

from typing import Any

import msgspec

from fairway.app.records import SandboxEvent
from fairway.app.view.frame import JobRow, NodeUse, WaitingJob
from fairway.app.view.models.common import PageStruct


class ObjectName(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    name: str
    namespace: str = ""


class ApplyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """POST /apply."""

    objects: list[dict[str, Any]]
    """Manifests as JSON, at most 10,000."""


class DeleteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """POST /delete. The kind `Job` means a group with its pods, or a lone pod."""

    objects: list[ObjectName]


class CommandResult(PageStruct, frozen=True):
    object: str
    """Kind and name, as in `Pod team-a/train-0`."""
    result: str
    """created, configured, unchanged or deleted."""


class CommandResults(PageStruct, frozen=True):
    items: list[CommandResult]


class JobItems(PageStruct, frozen=True):
    items: list[JobRow]


class NodeItems(PageStruct, frozen=True):
    items: list[NodeUse]


class EventItems(PageStruct, frozen=True):
    items: list[SandboxEvent]


class WaitingItems(PageStruct, frozen=True):
    items: list[WaitingJob]


class ObjectItems(PageStruct, frozen=True):
    items: list[dict[str, Any]]
