"""Ranks the slow way: every way to hand a job's places out among its equal pods, and the changes of domain of each.

It shares nothing with the scheduler.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from typing import NamedTuple


class Ranked(NamedTuple):
    """A pod of the job, in order of rank."""

    node: str
    kind: object
    """Pods of one kind may exchange their nodes; None stays where it is."""


def changes(nodes: Sequence[str], domains: Mapping[str, Sequence[str]]) -> tuple[int, ...]:
    """By level, the widest first and the node last, how often neighbours are in different domains.

    A domain is known by its own name and those of all wider ones that it is in.
    """
    paths = [(*domains[node], node) for node in nodes]
    levels = range(1, len(paths[0]) + 1) if paths else ()
    return tuple(sum(a[:level] != b[:level] for a, b in pairwise(paths)) for level in levels)


def fewest_changes(pods: Sequence[Ranked], domains: Mapping[str, Sequence[str]]) -> tuple[int, ...]:
    return min(changes(nodes, domains) for nodes in _ways(pods))


def _ways(pods: Sequence[Ranked]) -> Iterator[list[str]]:
    kinds = list(dict.fromkeys(pod.kind for pod in pods if pod.kind is not None))
    yield from _exchanged([pod.node for pod in pods], pods, kinds)


def _exchanged(nodes: list[str], pods: Sequence[Ranked], kinds: list[object]) -> Iterator[list[str]]:
    if not kinds:
        yield nodes
        return
    at = [i for i, pod in enumerate(pods) if pod.kind == kinds[0]]
    for way in sorted(set(permutations(pods[i].node for i in at))):
        changed = list(nodes)
        for i, node in zip(at, way, strict=True):
            changed[i] = node
        yield from _exchanged(changed, pods, kinds[1:])
