"""What the scenarios of preempt have in common: one node full of unimportant pods, and an important one."""

from typing import Any

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from support import objects as make
from support.contention import DAY, preempting, running, waiting

POLICY = preempting()
PRIORITY_FIRST = preempting(drf={"priorityFirst": True})


def low(name: str, node: str = "n1", **rest: Any) -> Pod:
    return running(name, node, **{"cpu": 1, **rest})


def high(name: str = "high", **rest: Any) -> Pod:
    return waiting(name, **{"cpu": 1, "priority": 10, "created": DAY, **rest})


def one_node(cpu: int = 1, **rest: Any) -> ApiObject:
    return make.node("n1", cpu=cpu, **rest)


def nodes(*names: str, cpu: int = 2) -> list[ApiObject]:
    return [make.node(name, cpu=cpu) for name in names]
