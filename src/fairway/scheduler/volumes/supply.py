"""What there is for claims that wait for their first consumer: volumes that no claim has, and provisioners.

For each distinct request there is an `Offer`: how many volumes each node could take, which they are, and where a new
one can be provisioned. Offers are kept from cycle to cycle; a volume that comes or goes changes the offers of its class
and nothing else.

A volume that a single node reaches (a local disk) is *narrow*: taking it changes that node only, which is touched by
the placement anyway, so the columns of the kernel stay what they are elsewhere. Any other volume is *wide*: taking it
may change many nodes, and a shape that could take it is placed one pod at a time.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from fairway.api.core import NO_PROVISIONER, PersistentVolume
from fairway.api.meta import LabelSelector
from fairway.api.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, matches
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.placement import matching
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, Generations, RowLog, same
from fairway.state.labels import NAME_FIELD, term_holds
from fairway.state.snapshot import WorkingCopy
from fairway.state.volumes import (
    UnboundClaim,
    capacity_of,
    class_of_volume,
    largest_volume,
    matches_request,
    topologies,
    total_capacity,
    zones_of,
)

OfferedVolume = tuple[int, str]
"""Size and name: the order in which volumes are taken."""


@dataclass(frozen=True, slots=True, eq=False)
class StoragePool:
    """What a driver can still provision of one class for some nodes."""

    name: str
    storage_class: str
    rows: IntColumn
    """The nodes that reach it."""
    largest: int
    """The largest volume."""
    total: int | None
    """All of it, where that is known."""


class Offer:
    """What there is for one request."""

    def __init__(self, request: UnboundClaim, size: int) -> None:
        self.request = request
        self._selector = msgspec.json.decode(request.selector, type=LabelSelector) if request.selector else None
        self.counts: IntColumn = np.zeros(size, dtype=np.int64)
        """By row, how many volumes it could take."""
        self.rows: dict[str, IntColumn] = {}
        """By volume: the rows that reach it."""
        self.narrow: dict[int, list[OfferedVolume]] = {}
        """By row: its volumes, in order."""
        self.wide: list[OfferedVolume] = []
        self.provisions: BoolColumn | None = None
        """Where a new volume may be provisioned; None for nowhere."""
        self.pools: list[StoragePool] | None = None
        """What it can be taken from, by name; None where the driver does not say."""
        self._narrow_pools: dict[int, list[StoragePool]] = {}
        self._wide_pools: list[StoragePool] = []

    def takes(self, volume: PersistentVolume) -> bool:
        return (
            class_of_volume(volume) == self.request.storage_class
            and matches_request(volume, self.request)
            and (self._selector is None or matches(self._selector, volume.metadata.labels))
        )

    def add(self, volume: PersistentVolume, rows: IntColumn) -> None:
        name = volume.metadata.name
        entry = capacity_of(volume), name
        self.rows[name] = rows
        self.counts[rows] += 1
        if len(rows) == 1:
            insort(self.narrow.setdefault(int(rows[0]), []), entry)
        elif len(rows):
            insort(self.wide, entry)

    def remove(self, volume: PersistentVolume) -> IntColumn | None:
        """Without the volume; returns the rows that it was for, None if it was not here."""
        rows = self.rows.pop(volume.metadata.name, None)
        if rows is None:
            return None
        self.counts[rows] -= 1
        entry = capacity_of(volume), volume.metadata.name
        if len(rows) == 1:
            here = self.narrow[int(rows[0])]
            here.remove(entry)
            if not here:
                del self.narrow[int(rows[0])]
        elif len(rows):
            self.wide.remove(entry)
        return rows

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing can be taken: there are no volumes, and provisioners do not say what they have."""
        return not self.rows and self.provisions is not None and self.pools is None

    def draw_on(self, pools: Iterable[StoragePool]) -> None:
        self.pools = [pool for pool in pools if pool.largest >= self.request.size]
        for pool in self.pools:
            if len(pool.rows) == 1:
                self._narrow_pools.setdefault(int(pool.rows[0]), []).append(pool)
            elif len(pool.rows):
                self._wide_pools.append(pool)

    @property
    def shares_pools(self) -> bool:
        """Whether several nodes draw on one pool."""
        return bool(self._wide_pools)

    def pools_at(self, row: int) -> list[StoragePool]:
        """Those that a row reaches, by name."""
        narrow = self._narrow_pools.get(row, [])
        wide = [pool for pool in self._wide_pools if row in pool.rows]
        return sorted([*narrow, *wide], key=lambda pool: pool.name) if wide else narrow


class VolumeSupply(
    DerivedValue,
    name="volume-supply",
    holds="by request of an unbound claim, the volumes and provisioners that each node has for it",
    inputs=("volumes", "nodes"),
    saves="matching all available volumes with all nodes",
):
    """The offers, one for each distinct request."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state.volumes.changed)
        self._state = state
        self._snapshot: WorkingCopy | None = None
        self._offers: dict[UnboundClaim, Offer] = {}
        self._pools: dict[str, list[StoragePool]] = {}
        self._masks: dict[NodeSelector, BoolColumn] = {}
        self._by_value: dict[str, dict[str, list[int]]] = {}
        self.basis: object = object()
        """Another one when columns that rest on offers must be computed anew."""

    @classmethod
    def make(cls, state: ClusterState) -> VolumeSupply:
        return cls(state)

    def bring_up_to_date(self, snapshot: WorkingCopy) -> None:
        self._snapshot = snapshot
        self.sync()

    def generations(self) -> Generations:
        nodes = self._state.nodes
        return self._state.volumes.generation, nodes.reshaped.end, len(nodes)

    def rebuild(self) -> None:
        if self._offers:
            self.basis = object()
        self._offers, self._pools, self._masks, self._by_value = {}, {}, {}, {}

    def update(self, changed: list[PersistentVolume]) -> None:
        """Volumes came or went. Of a narrow one its node is looked at again; of a wide one all that could take it."""
        assert self._snapshot is not None
        versions: dict[str, list[PersistentVolume]] = {}
        for volume in changed:
            versions.setdefault(volume.metadata.name, []).append(volume)
        for offer in self._offers.values():
            for of_one in versions.values():
                self._update(offer, of_one, self._snapshot.touched)

    def _update(self, offer: Offer, versions: list[PersistentVolume], touched: RowLog) -> None:
        before: IntColumn | None = None
        for version in versions:
            rows = offer.remove(version)
            before = rows if before is None else before
        now = self._state.volumes.volume(versions[-1].metadata.name)
        after: IntColumn | None = None
        if now is not None and self._state.volumes.is_available(now) and offer.takes(now):
            after = self.rows_of(now)
            offer.add(now, after)
        for rows in (before, after):
            if rows is not None and len(rows) == 1:
                touched.add(int(rows[0]))
            elif rows is not None and len(rows):
                self.basis = object()

    def check(self) -> None:
        if self._snapshot is None:
            return
        self.sync()
        fresh = VolumeSupply(self._state)
        fresh._snapshot = self._snapshot
        fresh.sync()
        for request, offer in self._offers.items():
            again = fresh.offer(request)
            same(f"volumes for {request}", offer.counts.tolist(), again.counts.tolist())
            same(f"order of volumes for {request}", (offer.narrow, offer.wide), (again.narrow, again.wide))

    # -- offers ---------------------------------------------------------------------------------------------------

    def offer(self, request: UnboundClaim) -> Offer:
        """What there is for a request, whichever claim it is of."""
        template = request.template
        offer = self._offers.get(template)
        if offer is None:
            offer = self._offers[template] = self._new_offer(template)
        return offer

    def offers(self) -> Iterable[Offer]:
        return self._offers.values()

    def _new_offer(self, request: UnboundClaim) -> Offer:
        assert self._snapshot is not None
        volumes, snapshot = self._state.volumes, self._snapshot
        offer = Offer(request, snapshot.size)
        for volume in volumes.available(request.storage_class):
            if offer.takes(volume):
                offer.add(volume, self.rows_of(volume))
        storage_class = volumes.classes.get(request.storage_class)
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return offer
        allowed = topologies(storage_class)
        offer.provisions = snapshot.alive.copy() if allowed is None else self._mask(allowed)
        if request.size and volumes.publishes_capacity(storage_class.provisioner):
            offer.draw_on(self.pools(request.storage_class))
        return offer

    def pools(self, class_name: str) -> list[StoragePool]:
        """What drivers say that they can provision of a class, by name."""
        found = self._pools.get(class_name)
        if found is None:
            found = self._pools[class_name] = self._read_pools(class_name)
        return found

    def _read_pools(self, class_name: str) -> list[StoragePool]:
        found = []
        for (namespace, name), capacity in sorted(self._state.volumes.capacities.get(class_name, {}).items()):
            topology = capacity.node_topology
            if topology is not None:
                rows = self._rows_of(_as_node_selector(topology))
                largest, total = largest_volume(capacity), total_capacity(capacity)
                found.append(StoragePool(f"{namespace}/{name}", class_name, rows, largest, total))
        return found

    # -- where a volume can be used -------------------------------------------------------------------------------

    def rows_of(self, volume: PersistentVolume) -> IntColumn:
        """The nodes that reach a volume, by its node affinity and its zone labels."""
        assert self._snapshot is not None
        affinity = volume.spec.node_affinity
        selector = None if affinity is None else affinity.required
        zones = zones_of(volume)
        if not zones:
            return self._rows_of(selector)
        mask = self._snapshot.alive if selector is None else self._mask(selector)
        for zone in zones:
            mask = mask & matching.zone_column(zone, self._snapshot)
        return np.flatnonzero(mask)

    def _rows_of(self, selector: NodeSelector | None) -> IntColumn:
        assert self._snapshot is not None
        if selector is None:
            return np.flatnonzero(self._snapshot.alive)
        one = self._one_row(selector)
        return np.flatnonzero(self._mask(selector)) if one is None else one

    def _mask(self, selector: NodeSelector) -> BoolColumn:
        """Many volumes have the same selector: one column for all of a zone."""
        assert self._snapshot is not None
        mask = self._masks.get(selector)
        if mask is None:
            mask = self._masks[selector] = matching.any_term_column(selector, self._snapshot) & self._snapshot.alive
        return mask

    def _one_row(self, selector: NodeSelector) -> IntColumn | None:
        """The row of a selector that names a single node, as local volumes have it, without a look at all nodes: a
        cluster has as many such selectors as nodes. None where it is not that simple.
        """
        if len(selector.node_selector_terms) != 1:
            return None
        [term] = selector.node_selector_terms
        candidates = self._candidates(term)
        if candidates is None:
            return None
        nodes = self._state.nodes
        rows = [
            row for row in candidates if nodes.alive[row] and term_holds(term, nodes.names[row], nodes.labels.at(row))
        ]
        return np.array(rows, dtype=np.int64)

    def _candidates(self, term: NodeSelectorTerm) -> list[int] | None:
        """Few rows that include all of a term; None if they are not easily found."""
        nodes = self._state.nodes
        for field in term.match_fields:
            if field.key == NAME_FIELD and field.operator == "In":
                return [nodes.rows[name] for name in field.values if name in nodes.rows]
        for expression in term.match_expressions:
            if expression.operator != "In" or len(expression.values) != 1:
                continue
            if nodes.labels.is_unique(expression.key, len(nodes)):
                return self._rows_by_value(expression.key).get(expression.values[0], [])
        return None

    def _rows_by_value(self, key: str) -> dict[str, list[int]]:
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = {}
            labels = self._state.nodes.labels
            for row in range(len(self._state.nodes)):
                value = labels.at(row).get(key)
                if value is not None:
                    found.setdefault(value, []).append(row)
        return found


def volume_supply(state: ClusterState, snapshot: WorkingCopy) -> VolumeSupply | None:
    """The supply of a state, up to date; None while nothing has asked for it."""
    supply = state.derived.kept(VolumeSupply)
    if supply is not None:
        supply.bring_up_to_date(snapshot)
    return supply


def _as_node_selector(selector: LabelSelector) -> NodeSelector | None:
    """The same as requirements of nodes; None for a selector that matches all."""
    labels = [
        NodeSelectorRequirement(key=key, operator="In", values=(value,))
        for key, value in sorted(selector.match_labels.items())
    ]
    expressions = [
        NodeSelectorRequirement(key=each.key, operator=each.operator, values=each.values)
        for each in selector.match_expressions
    ]
    if not labels and not expressions:
        return None
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(*labels, *expressions)),))
