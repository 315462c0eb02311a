"""The slow twin of volume binding: one pod, one node, one claim at a time, on plain values. It shares no code.

A claim gets the volume that names it, else the smallest available one that matches and that the node reaches, else what
a provisioner makes for the node, if its class allows that and its driver has the storage.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Disk:
    name: str
    size: int
    storage_class: str
    nodes: frozenset[str]
    """The nodes that reach it."""
    modes: frozenset[str]
    claim: str = ""
    """The claim that it is kept for."""


@dataclass(frozen=True)
class Wish:
    """A claim that is not bound."""

    name: str
    size: int
    storage_class: str
    modes: frozenset[str]
    selected: str = ""


@dataclass
class Storage:
    """What there is, and what has been given so far."""

    disks: list[Disk]
    wishes: dict[str, Wish]
    provisioned_on: dict[str, frozenset[str]]
    """By class that has a provisioner: the nodes that it may provision for."""
    pools: dict[str, dict[str, int]]
    """By class whose driver publishes it: what is left on each node."""
    given: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By claim: the disk, or "" and the node."""

    def serve(self, claims: list[str], node: str) -> dict[str, tuple[str, str]] | None:
        """What each claim of a pod gets on a node; None if the node will not do."""
        used = {disk for disk, _ in self.given.values()}
        found: dict[str, tuple[str, str]] = {}
        rest: list[Wish] = []
        wishes = [self.wishes[claim] for claim in set(claims)]
        for wish in sorted(wishes, key=lambda wish: (wish.size, wish.name)):
            if wish.name in self.given:
                disk, place = self.given[wish.name]
                if node not in (self._disk(disk).nodes if disk else {place}):
                    return None
                found[wish.name] = self.given[wish.name]
                continue
            own = [disk for disk in self.disks if disk.claim == wish.name and disk.size >= wish.size]
            if wish.selected:
                rest.append(wish)
            elif own:
                best = min(own, key=lambda disk: disk.name)
                if node in best.nodes:
                    found[wish.name] = best.name, node
                else:
                    rest.append(wish)
            else:
                free = [disk for disk in self.disks if disk.name not in used and self._may_have(wish, disk, node)]
                if free:
                    best = min(free, key=lambda disk: (disk.size, disk.name))
                    used.add(best.name)
                    found[wish.name] = best.name, node
                else:
                    rest.append(wish)
        drawn: dict[str, int] = {}
        for wish in rest:
            if wish.selected not in ("", node) or node not in self.provisioned_on.get(wish.storage_class, ()):
                return None
            pool = self.pools.get(wish.storage_class)
            if pool is not None:
                drawn[wish.storage_class] = drawn.get(wish.storage_class, 0) + wish.size
                if pool.get(node, 0) < drawn[wish.storage_class]:
                    return None
            found[wish.name] = "", node
        return found

    def give(self, found: dict[str, tuple[str, str]]) -> None:
        for claim, (disk, node) in found.items():
            wish = self.wishes[claim]
            if claim not in self.given and not disk and wish.storage_class in self.pools:
                self.pools[wish.storage_class][node] -= wish.size
            self.given[claim] = disk, node

    def _may_have(self, wish: Wish, disk: Disk, node: str) -> bool:
        return (
            not disk.claim
            and disk.storage_class == wish.storage_class
            and disk.size >= wish.size
            and wish.modes <= disk.modes
            and node in disk.nodes
        )

    def _disk(self, name: str) -> Disk:
        return next(disk for disk in self.disks if disk.name == name)
