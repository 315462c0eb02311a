"""Topology the slow way: what a plan must have done for each gang, judged by counting pods on nodes one by one.

The gangs are looked at in the order in which they stand; what the plan bound for earlier ones is taken off the nodes
first. It shares nothing with the scheduler but the objects and the plan.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple


class Machine(NamedTuple):
    name: str
    free: int
    domains: Mapping[str, str]
    """Its domain at each level; a level that is not there has none for it."""


class Gang(NamedTuple):
    name: str
    pods: int
    size: int
    hard: bool
    levels: Sequence[str]
    """At which it may be whole, the narrowest first."""


def broken_rules(machines: Sequence[Machine], gangs: Sequence[Gang], bound: Mapping[str, str]) -> list[str]:
    """What is wrong with a plan that binds pods (`gang-number`) to machines; nothing, if it is right."""
    free = {machine.name: machine.free for machine in machines}
    faults = []
    for gang in gangs:
        nodes = [bound[f"{gang.name}-{i}"] for i in range(gang.pods) if f"{gang.name}-{i}" in bound]
        if nodes and len(nodes) < gang.pods:
            faults.append(f"{gang.name} is placed in part: {nodes}")
        faults += _judge(gang, nodes, machines, free)
        for node in nodes:
            free[node] -= gang.size
            if free[node] < 0:
                faults.append(f"{node} has too many pods")
    return faults


def _judge(gang: Gang, nodes: Sequence[str], machines: Sequence[Machine], free: Mapping[str, int]) -> list[str]:
    if not nodes:
        if gang.hard and _whole(gang, machines, free):
            return [f"{gang.name} waits, though {_whole(gang, machines, free)} could take it whole"]
        if not gang.hard and _room(machines, free, gang.size) >= gang.pods:
            return [f"{gang.name} waits, though there is room"]
        return []
    if gang.hard:
        ok = any(len(_used(machines, nodes, level)) == 1 for level in gang.levels)
        return [] if ok else [f"{gang.name} is spread over {nodes}"]
    for level in gang.levels:
        if _fewest(gang, machines, free, level) == 1:
            return [] if len(_used(machines, nodes, level)) == 1 else [f"{gang.name} could be in one {level}: {nodes}"]
    widest = gang.levels[-1]
    fewest, used = _fewest(gang, machines, free, widest), _used(machines, nodes, widest)
    return [f"{gang.name} is in {used}, {fewest} would do"] if fewest and len(used) > fewest else []


def _room(machines: Sequence[Machine], free: Mapping[str, int], size: int) -> int:
    return sum(free[machine.name] // size for machine in machines)


def _whole(gang: Gang, machines: Sequence[Machine], free: Mapping[str, int]) -> str:
    for level in gang.levels:
        for name in sorted({machine.domains[level] for machine in machines if level in machine.domains}):
            inside = [machine for machine in machines if machine.domains.get(level) == name]
            if _room(inside, free, gang.size) >= gang.pods:
                return f"{level} {name}"
    return ""


def _used(machines: Sequence[Machine], nodes: Sequence[str], level: str) -> set[str | None]:
    """The domains that hold its pods; nodes without the level are each a domain of their own."""
    return {machine.domains.get(level, machine.name) for machine in machines if machine.name in nodes}


def _fewest(gang: Gang, machines: Sequence[Machine], free: Mapping[str, int], level: str) -> int:
    """The smallest number of domains that together take the gang; 0 if all of them do not."""
    names = sorted({machine.domains[level] for machine in machines if level in machine.domains})
    for count in range(1, len(names) + 1):
        for chosen in combinations(names, count):
            inside = [machine for machine in machines if machine.domains.get(level) in chosen]
            if _room(inside, free, gang.size) >= gang.pods:
                return count
    return 0
