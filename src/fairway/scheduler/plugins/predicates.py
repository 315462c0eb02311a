"""Where a pod may run, by the rules of Kubernetes.

What follows from the node alone (readiness, labels, taints, volumes) is kept with the shape; what follows from the
pods there (ports, affinity, spreading) is asked again as they come and go. Capacity is the kernel's own business.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairway.api.pods import Taint
from fairway.api.settings import Arguments
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler import verdict as texts
from fairway.scheduler.framework.hooks import Check, Filters, FiltersByLabels, LimitsNodes, LooksAround, Opens
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.placement import matching, pod_rules
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.plugins import volume_rules
from fairway.scheduler.volumes.assignments import VolumeAssignments
from fairway.state.shapes import Shape, ports_clash

_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
NO_LIMIT = 1 << 40
_ENFORCED = ("NoSchedule", "NoExecute")


class Predicates(Opens, Filters, FiltersByLabels, LimitsNodes, LooksAround):
    """Where a pod may run, by the rules of Kubernetes."""

    name = "predicates"

    def __init__(self, arguments: Arguments) -> None:
        self._session: SessionView | None = None

    def open(self, session: SessionView) -> None:
        self._session = session

    def feasible_static(self, shape: Shape, nodes: NodeView) -> Iterable[Check]:
        table, size = nodes.snapshot.state.nodes, nodes.snapshot.size
        yield Check(nodes.picked(table.ready[:size]), texts.NOT_READY_TEXT)
        if not shape.tolerations or not matching.tolerates(shape.tolerations, _CORDON):
            yield Check(nodes.picked(table.schedulable[:size]), texts.UNSCHEDULABLE_TEXT)
        if shape.node_selector:
            yield Check(nodes.picked(matching.selector_column(shape, nodes.snapshot)), texts.NODE_SELECTOR_TEXT)
        if shape.node_affinity is not None:
            required = matching.required_affinity_column(shape, nodes.snapshot)
            if required is not None:
                yield Check(nodes.picked(required), texts.NODE_AFFINITY_TEXT)
        yield from self._taints(shape, nodes)
        if shape.volumes.selectors or shape.volumes.zones:
            yield from volume_rules.static_checks(shape, nodes)

    def feasible(self, shape: Shape, nodes: NodeView) -> Iterable[Check]:
        if shape.ports or shape.has_pod_rules or (shape.has_volumes and not self._volumes.is_idle(shape)):
            return self._pod_checks(shape, nodes)
        return ()

    def _pod_checks(self, shape: Shape, nodes: NodeView) -> Iterable[Check]:
        if shape.ports:
            yield Check(self._ports_free(shape, nodes), texts.PORTS_TEXT)
        if shape.has_volumes:
            yield from volume_rules.checks(shape, nodes, self._volumes)
        if shape.has_pod_rules:
            yield from pod_rules.checks(shape, nodes)

    def limit(self, shape: Shape, nodes: NodeView) -> IntColumn | None:
        """Pods that want one port, or that keep off their like on a node, go one to a node."""
        if shape.ports:
            return np.ones(nodes.size, dtype=np.int64)
        attachable = None
        if shape.has_volumes and not self._volumes.is_idle(shape):
            attachable = volume_rules.limit(shape, nodes, self._volumes)
        alone = pod_rules.one_per_node(shape, nodes.snapshot) if shape.rules.anti_affinity else None
        if alone is None:
            return attachable
        apart = np.where(nodes.picked(alone), 1, NO_LIMIT)
        return apart if attachable is None else np.minimum(apart, attachable)

    def looks_around(self, shape: Shape) -> bool:
        session = self._session
        assert session is not None
        if shape.has_volumes and volume_rules.looks_around(shape, session.pods, session.volumes):
            return True
        return shape.has_pod_rules and pod_rules.looks_around(shape, session.snapshot)

    @property
    def _volumes(self) -> VolumeAssignments:
        assert self._session is not None
        return self._session.volumes

    def _taints(self, shape: Shape, nodes: NodeView) -> Iterable[Check]:
        """One check per taint that somewhere is the first not tolerated, so that it can be named."""
        taints = nodes.snapshot.state.nodes.taints
        named: dict[str, list[int]] = {}
        for code, set_ in enumerate(taints.sets):
            for taint in set_:
                if taint.effect in _ENFORCED and not matching.tolerates(shape.tolerations, taint):
                    named.setdefault(texts.untolerated(taint.key, taint.value), []).append(code)
                    break
        if named:
            codes = nodes.pick(taints.codes(nodes.snapshot.size))
            for text, bad in sorted(named.items()):
                yield Check(~np.isin(codes, bad), text)

    def _ports_free(self, shape: Shape, nodes: NodeView) -> BoolColumn:
        known = nodes.snapshot.state.nodes.ports
        if nodes.rows is not None:
            taken_on = (nodes.pods.ports_on(row, known) for row in nodes.rows.tolist())
            return np.array([not ports_clash(shape.ports, tuple(taken)) for taken in taken_on], dtype=np.bool_)
        free = np.ones(nodes.snapshot.size, dtype=np.bool_)
        for row, taken in nodes.pods.ports(known):
            if row < len(free) and ports_clash(shape.ports, tuple(taken)):
                free[row] = False
        return nodes.picked(free)
