"""The built-in plugins, by name. Each is a noun and fits on a page or two."""

from __future__ import annotations

from typing import Any

from fairway.scheduler.plugins.binpack import BinPack
from fairway.scheduler.plugins.capacity import Capacity
from fairway.scheduler.plugins.conformance import Conformance
from fairway.scheduler.plugins.devices import Devices
from fairway.scheduler.plugins.drf import Drf
from fairway.scheduler.plugins.fgd import Fgd
from fairway.scheduler.plugins.gang import Gang
from fairway.scheduler.plugins.nodeorder import NodeOrder
from fairway.scheduler.plugins.predicates import Predicates
from fairway.scheduler.plugins.priority import Priority
from fairway.scheduler.plugins.proportion import Proportion
from fairway.scheduler.plugins.sla import Sla

BUILT_IN: dict[str, type[Any]] = {
    plugin.name: plugin
    for plugin in (
        Priority,
        Gang,
        Conformance,
        Sla,
        Drf,
        Predicates,
        Proportion,
        Capacity,
        NodeOrder,
        BinPack,
        Devices,
        Fgd,
    )
}
"""In the order of the policy reference. A plugin is one module and one entry here."""
