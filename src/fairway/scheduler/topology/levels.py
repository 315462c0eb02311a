"""Levels: ways to divide the nodes into domains, by labels or by HyperNodes of a tier."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.api.affinity import matches
from fairway.api.topology import HyperNode, HyperNodeMember
from fairway.state.cluster import ClusterState
from fairway.state.labels import ABSENT
from fairway.state.topology import TopologyRequest

Codes = NDArray[np.int32]


class Level(NamedTuple):
    """By node row the code of its domain, `ABSENT` where it is in none; `names` of domains by code - 1."""

    name: str
    codes: Codes
    names: list[str]


def levels_of(state: ClusterState, size: int, listed: tuple[str, ...], request: TopologyRequest) -> list[Level]:
    """The levels at which a request may be met by one domain, the narrowest first. `listed`: the policy's labels."""
    if not request.keys:
        return network_levels(state, size, listed, highest_tier(state, request))
    if request.hard or len(request.keys) > 1:
        return [_combined(state, size, request.keys, listed)]
    key = request.keys[0]
    wider = listed[: listed.index(key)] if key in listed else ()
    return [_combined(state, size, (name,), listed) for name in (key, *reversed(wider))]


def highest_tier(state: ClusterState, request: TopologyRequest) -> int:
    """The tier up to which domains count, 0 for any; the name of one wins over its number."""
    named = state.hyper_nodes.tier_named(request.tier_name) if request.tier_name else None
    return request.tier if named is None else named


def network_levels(state: ClusterState, size: int, listed: tuple[str, ...], highest: int) -> list[Level]:
    """Tiers of HyperNodes; where there are none, the policy's labels are the tiers, the narrowest being the first."""
    if state.hyper_nodes:
        tiers = state.derived.of(_HyperLevels, _HyperLevels).of(state, size)
        return [level for tier, level in tiers if not highest or tier <= highest]
    labels = [_combined(state, size, (key,), listed) for key in reversed(listed)]
    return labels[:highest] if highest else labels


def _combined(state: ClusterState, size: int, keys: tuple[str, ...], listed: tuple[str, ...]) -> Level:
    """Domains by the values of all these labels together, and of those that the policy lists above them: rack r1 of
    block b1 is not rack r1 of block b2. A node without a label above is in a domain of those that lack it, too.
    """
    labels = state.nodes.labels
    if not all(labels.has(key) for key in keys):
        return Level(" and ".join(keys), np.zeros(size, dtype=np.int32), [])
    lowest = max((listed.index(key) for key in keys if key in listed), default=0)
    above = [key for key in listed[:lowest] if key not in keys and labels.has(key)]
    path = (*above, *keys)
    columns = [labels.column(key, size) for key in path]
    if len(path) == 1:
        return Level(keys[0], columns[0], labels.values(keys[0]))
    stacked = np.stack(columns, axis=1)
    found, inverse = np.unique(stacked, axis=0, return_inverse=True)
    whole = (stacked[:, len(above) :] != ABSENT).all(axis=1)
    codes = np.where(whole, inverse.reshape(-1) + 1, ABSENT).astype(np.int32)
    values = [labels.values(key) for key in path]
    names = ["/".join(values[i][code - 1] if code else "" for i, code in enumerate(row)) for row in found.tolist()]
    return Level(" and ".join(keys), codes, names)


class _HyperLevels:
    """By tier, the lowest first; kept until HyperNodes or nodes change."""

    def __init__(self) -> None:
        self._stamp = (-1, -1, -1)
        self._levels: list[tuple[int, Level]] = []

    def of(self, state: ClusterState, size: int) -> list[tuple[int, Level]]:
        stamp = (state.hyper_nodes.generation, state.nodes.reshaped.end, size)
        if self._stamp != stamp:
            self._stamp, self._levels = stamp, _resolve(state, size)
        return self._levels


def _resolve(state: ClusterState, size: int) -> list[tuple[int, Level]]:
    things = state.hyper_nodes.by_name()
    by_tier: dict[int, list[str]] = {}
    for name, thing in things.items():
        by_tier.setdefault(thing.spec.tier, []).append(name)
    known: dict[str, set[int]] = {}
    levels = []
    for tier, names in sorted(by_tier.items()):
        codes = np.zeros(size, dtype=np.int32)
        for code, name in enumerate(names, 1):
            rows = [row for row in _rows_of(name, things, state, known, ()) if codes[row] == ABSENT]
            codes[rows] = code
        levels.append((tier, Level(f"HyperNodes of tier {tier}", codes, names)))
    return levels


def _rows_of(
    name: str, things: dict[str, HyperNode], state: ClusterState, known: dict[str, set[int]], above: tuple[str, ...]
) -> set[int]:
    """The rows of all nodes in a HyperNode; a circle of members ends where it closes."""
    if name in known:
        return known[name]
    rows: set[int] = set()
    for member in things[name].spec.members:
        if member.type == "Node":
            rows |= {row for row in state.nodes.rows.values() if _is_member(member, row, state)}
            continue
        for inner in things:
            if inner != name and inner not in above and _matches(member, inner):
                rows |= _rows_of(inner, things, state, known, (*above, name))
    if not above:
        known[name] = rows
    return rows


def _is_member(member: HyperNodeMember, row: int, state: ClusterState) -> bool:
    labels = member.selector.label_match
    if labels is not None:
        return matches(labels, state.nodes.labels.at(row))
    return _matches(member, state.nodes.names[row])


def _matches(member: HyperNodeMember, name: str) -> bool:
    selector = member.selector
    if selector.exact_match is not None:
        return selector.exact_match.name == name
    return selector.regex_match is not None and re.search(selector.regex_match.pattern, name) is not None
