"""Rules between pods: affinity, anti-affinity (also that of pods already there) and topology spread.

A rule counts pods in *domains*: the nodes that share a value of a topology key. Where every node is its own domain
(host names) a placement concerns one node only; otherwise the shape looks around, and is placed one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn
from fairway.scheduler import verdict as texts
from fairway.scheduler.placement import matching
from fairway.scheduler.placement.node_view import Check, FloatColumn, NodeView
from fairway.state.labels import ABSENT
from fairway.state.pod_terms import CountColumn
from fairway.state.shapes import Shape, Spread
from fairway.state.snapshot import WorkingCopy


def looks_around(shape: Shape, snapshot: WorkingCopy) -> bool:
    """Whether a placement may change what other nodes mean to pods of this shape."""
    rules = shape.rules
    if rules.affinity or rules.spread or rules.preferred:
        return True
    keys = {key for _, key in rules.anti_affinity}
    for term in shape.matched:
        keys |= snapshot.state.terms.repelling.get(term, {}).keys()
    labels = snapshot.state.nodes.labels
    return any(not labels.is_unique(key, snapshot.size) for key in keys)


def one_per_node(shape: Shape, snapshot: WorkingCopy) -> BoolColumn | None:
    """Nodes of which a pod keeps its like off: those that are in a domain of such a rule. None if it has none."""
    keys = {key for term, key in shape.rules.anti_affinity if term in shape.matched}
    if not keys:
        return None
    alone = np.zeros(snapshot.size, dtype=np.bool_)
    for key in keys:
        alone |= _codes(key, snapshot) != ABSENT
    return alone


def checks(shape: Shape, nodes: NodeView) -> Iterator[Check]:
    rules = shape.rules
    if rules.affinity:
        yield Check(_together(shape, nodes), texts.POD_AFFINITY_TEXT)
    for term, key in rules.anti_affinity:
        if not nodes.pods.anywhere(term):
            continue
        here = _in_domain(nodes.pods.present(term, nodes.snapshot.size), key, nodes)
        yield Check(here == 0, texts.POD_ANTI_AFFINITY_TEXT)
    for term in shape.matched:
        for owned in nodes.pods.owned_terms(term):
            if not nodes.pods.owned_anywhere(owned):
                continue
            owners = _in_domain(nodes.pods.owners(owned, nodes.snapshot.size), owned[1], nodes)
            yield Check(owners == 0, texts.EXISTING_ANTI_AFFINITY_TEXT)
    for spread in rules.spread:
        if spread.hard:
            yield Check(nodes.picked(_spread_passes(shape, spread, nodes)), texts.SPREAD_TEXT)


def preference_score(shape: Shape, nodes: NodeView) -> FloatColumn:
    """0 to 100: how well the preferred pod affinities are met, compared with the other nodes."""
    raw = np.zeros(nodes.snapshot.size)
    for selector in shape.rules.preferred:
        here = _everywhere(
            nodes.pods.present(selector.term, nodes.snapshot.size), selector.topology_key, nodes.snapshot
        )
        raw += selector.weight * here
    return _normalised(raw, nodes)


def spread_score(shape: Shape, nodes: NodeView) -> FloatColumn:
    """0 to 100: the fewer like pods in the domain, the better."""
    raw = np.zeros(nodes.snapshot.size)
    for spread in shape.rules.spread:
        if not spread.hard:
            raw -= _everywhere(
                nodes.pods.present(spread.term, nodes.snapshot.size), spread.topology_key, nodes.snapshot
            )
    return _normalised(raw, nodes)


def _normalised(raw: FloatColumn, nodes: NodeView) -> FloatColumn:
    known = raw[nodes.snapshot.alive]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    scaled = (raw - low) * (100.0 / (high - low)) if high > low else np.zeros(len(raw))
    return scaled if nodes.rows is None else scaled[nodes.rows]


def _together(shape: Shape, nodes: NodeView) -> BoolColumn:
    """Every affinity must find a pod in the domain. The first of a group that wants its own kind may go anywhere."""
    size = nodes.snapshot.size
    found = np.ones(size, dtype=np.bool_)
    labelled = np.ones(size, dtype=np.bool_)
    exists = False
    for term, key in shape.rules.affinity:
        near = _everywhere(nodes.pods.present(term, size), key, nodes.snapshot) > 0
        exists = exists or bool(near.any())
        found &= near
        labelled &= _codes(key, nodes.snapshot) != ABSENT
    wants_itself = all(term in shape.matched for term, _ in shape.rules.affinity)
    passes = labelled if wants_itself and not exists else found & labelled
    return nodes.picked(passes)


def _spread_passes(shape: Shape, spread: Spread, nodes: NodeView) -> BoolColumn:
    """Worked out by domain, of which there are few."""
    snapshot = nodes.snapshot
    codes = _codes(spread.topology_key, snapshot).astype(np.intp)
    counted = snapshot.alive & (codes != ABSENT) & _counts(shape, spread, snapshot)
    present = nodes.pods.present(spread.term, snapshot.size) * counted
    by_domain = np.bincount(codes, weights=present, minlength=int(codes.max(initial=0)) + 1)
    there = np.bincount(codes, weights=counted, minlength=len(by_domain)) > 0
    least = by_domain[there].min() if there.sum() >= max(1, spread.min_domains) else 0
    itself = 1 if spread.term in shape.matched else 0
    fits: BoolColumn = by_domain + itself - least <= spread.max_skew
    fits[ABSENT] = False
    return fits[codes]


def _counts(shape: Shape, spread: Spread, snapshot: WorkingCopy) -> BoolColumn:
    """Which nodes take part in counting, by the constraint's inclusion policies."""
    included = np.ones(snapshot.size, dtype=np.bool_)
    if spread.honor_affinity:
        included &= matching.selector_column(shape, snapshot)
        required = matching.required_affinity_column(shape, snapshot)
        if required is not None:
            included &= required
    if spread.honor_taints:
        taints = snapshot.state.nodes.taints
        fine = [
            all(t.effect == "PreferNoSchedule" or matching.tolerates(shape.tolerations, t) for t in set_)
            for set_ in taints.sets
        ]
        included &= np.array(fine)[taints.codes(snapshot.size)]
    return included


def _in_domain(counts: CountColumn, key: str, nodes: NodeView) -> NDArray[np.integer]:
    """For each node in view, how many are counted in its domain; 0 for a node without the key."""
    snapshot = nodes.snapshot
    if snapshot.state.nodes.labels.is_unique(key, snapshot.size):
        if nodes.rows is not None:
            counts = counts[nodes.rows]
        labelled: BoolColumn = nodes.pick(_codes(key, snapshot)) != ABSENT
        return counts * labelled
    everywhere = _everywhere(counts, key, snapshot)
    return everywhere if nodes.rows is None else everywhere[nodes.rows]


def _everywhere(counts: CountColumn, key: str, snapshot: WorkingCopy) -> NDArray[np.int64]:
    """The same for all nodes, to compare them."""
    codes = _codes(key, snapshot)
    by_domain = np.bincount(codes, weights=counts, minlength=1).astype(np.int64)
    by_domain[ABSENT] = 0
    return by_domain[codes]


def _codes(key: str, snapshot: WorkingCopy) -> NDArray[np.int32]:
    return snapshot.state.nodes.labels.column(key, snapshot.size)
