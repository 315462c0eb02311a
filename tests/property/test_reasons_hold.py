"""Every number in a reason is true: what a sentence says of queues, gangs and nodes holds of the plan and the objects.

The sentences are read back here word by word; one with a number that is not known here fails the test.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, given, settings

from fairway.api.core import Node
from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.api.scheduling import Queue
from fairway.resources.quantity import parse_amount
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plan import ExplainedPlan, Pending
from support import objects as make
from support.clusters import clusters, policies
from support.contended import contended, evicting_policies
from support.effort import examples
from support.engine import plan, policy, state_of, waiting

Words = re.Match[str]

modest = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Cluster:
    """What a sentence is held against: the objects, and what the plan says of queues."""

    def __init__(self, objects: list[ApiObject], plan: ExplainedPlan) -> None:
        self.nodes = sum(isinstance(thing, Node) for thing in objects)
        self.pods = [thing for thing in objects if isinstance(thing, Pod)]
        self.capability = {q.metadata.name: q.spec.capability for q in objects if isinstance(q, Queue)}
        self.standing = {queue.name: queue for queue in plan.queues}

    def check_allocated(self, words: Words) -> None:
        """What is allocated, and what is reserved besides, are as the plan's table of queues has them."""
        standing, resource = self.standing[words["queue"]], words["resource"]
        if resource in standing.allocated:
            assert standing.allocated[resource] == words["have"], (words[0], standing)
            assert standing.reserved.get(resource, "0") == (words["reserved"] or "0"), (words[0], standing)


def amounts(words: Words) -> Callable[[str], int]:
    return lambda name: parse_amount(words["resource"], words[name] or "0")


def capability(words: Words, cluster: Cluster, _: Pending) -> None:
    amount = amounts(words)
    assert amount("have") + amount("reserved") + amount("more") > amount("most")
    assert amount("more") > 0
    written = cluster.capability[words["queue"]][words["resource"]]
    assert parse_amount(words["resource"], written) == amount("most")
    cluster.check_allocated(words)


def deserved(words: Words, cluster: Cluster, _: Pending) -> None:
    amount = amounts(words)
    assert amount("have") + amount("reserved") + amount("more") > amount("most")
    cluster.check_allocated(words)
    assert cluster.standing[words["queue"]].deserved.get(words["resource"], "0") == words["most"]


def rest(words: Words, cluster: Cluster, _: Pending) -> None:
    amount = amounts(words)
    assert amount("others") + amount("have") + amount("reserved") + amount("more") > amount("most")
    cluster.check_allocated(words)


def guaranteed(words: Words, _: Cluster, __: Pending) -> None:
    amount = amounts(words)
    assert amount("others") + amount("more") > amount("most")


def fewer(words: Words, _: Cluster, __: Pending) -> None:
    assert int(words["have"]) < int(words["most"])


def too_few(words: Words, cluster: Cluster, row: Pending) -> None:
    fewer(words, cluster, row)
    if words["role"] is None:
        assert int(words["most"]) == row.minimum


def nodes(words: Words, cluster: Cluster, row: Pending) -> None:
    """Each node is counted once, and those that fit are too few to say that nothing is missing."""
    fits, total = int(words["fits"]), int(words["total"])
    counts = [int(number) for number in re.findall(r"(?:^|, )(\d+) ", words["causes"] or "")]
    assert total == cluster.nodes
    assert fits + sum(counts) == total
    assert fits + sum(row.nodes.values()) == total
    if row.reason == "InsufficientResources":
        assert any(cause.startswith("insufficient") for cause in row.nodes)


def never(words: Words, cluster: Cluster, row: Pending) -> None:
    """It needs more than there is; what the nodes say now is true as well."""
    assert row.reason == "NeverFits"
    if words.groupdict().get("resource"):
        assert amounts(words)("need") > amounts(words)("there")
    else:
        assert int(words["need"]) > int(words["there"])
    nodes(words, cluster, row)


def overcommitted(words: Words, _: Cluster, row: Pending) -> None:
    amount = amounts(words)
    assert row.reason == "NotEnqueued"
    assert amount("have") + amount("admitted") + amount("more") > Fraction(words["factor"]) * amount("most")


AMOUNT = r"[0-9.]+[a-zA-Z]*"
ASIDE = rf"(?: \+ (?P<reserved>{AMOUNT}) reserved)?"
NODES_FIT = r"(?P<fits>\d+)/(?P<total>\d+) nodes fit(?:: (?P<causes>[^;]+))?"
SENTENCES = {
    rf"queue (?P<queue>\S+) has (?P<have>{AMOUNT}) of (?P<most>{AMOUNT}) (?P<resource>\S+) allocated{ASIDE}; "
    rf"(?P<more>{AMOUNT}) more would exceed its capability": capability,
    rf"queue (?P<queue>\S+) has (?P<have>{AMOUNT}) (?P<resource>\S+) allocated{ASIDE} and deserves "
    rf"(?P<most>{AMOUNT}); "
    rf"(?P<more>{AMOUNT}) more would exceed that": deserved,
    rf"other queues have or are guaranteed (?P<others>{AMOUNT}) of (?P<most>{AMOUNT}) (?P<resource>\S+); "
    rf"queue (?P<queue>\S+) has (?P<have>{AMOUNT}) allocated{ASIDE}, "
    rf"(?P<more>{AMOUNT}) more would exceed the rest": rest,
    rf"other queues are guaranteed (?P<others>{AMOUNT}) of (?P<most>{AMOUNT}) (?P<resource>\S+); "
    rf"the (?P<more>{AMOUNT}) of its minimum would cut into that": guaranteed,
    r"has (?P<have>\d+) of its minimum of (?P<most>\d+) pods(?P<role> in role '.*')?": too_few,
    r"needs (?P<most>\d+) evictions, (?P<have>\d+) left in this cycle": fewer,
    r"(?:(?P<have>\d+) of the (?P<most>\d+) pods it needs at once could be placed; \S+: |"
    r"fits once the terminating pods are gone; now )?"
    r"(?P<fits>\d+)/(?P<total>\d+) nodes fit(?:: (?P<causes>[^;]+))?": nodes,
    rf"(?:a pod )?needs (?P<need>{AMOUNT}) (?P<resource>\S+); (?:the cluster|the nodes it may use|the largest node"
    rf"(?: that it may use)?) (?:has|have) (?P<there>{AMOUNT}); now {NODES_FIT}": never,
    r"needs (?P<need>\d+) pods at once; the empty nodes have capacity for (?P<there>\d+); now " + NODES_FIT: never,
    rf"the cluster has (?P<most>{AMOUNT}) (?P<resource>\S+), (?P<have>{AMOUNT}) allocated and "
    rf"(?P<admitted>{AMOUNT}) more admitted; its minResources of (?P<more>{AMOUNT}) more would exceed "
    r"(?P<factor>[0-9.]+) times the cluster \(overcommitFactor\)": overcommitted,
}
WITHOUT_NUMBERS = (
    r"the cluster has no nodes",
    r"queue \S+ (?:is closed|does not exist)",
    r"queue \S+, above \S+, does not exist",
    r"queue \S+ has children \(.*\); jobs can only be in leaf queues",
    r"its PodGroup \S+ does not exist",
    r"no node that it may use accepts pods; now .*",
    r"a pod needs more than any single node has, although each resource alone is available on some node; now .*",
    r".*\bgate.*",
    r"none of the policy's actions \(.*\) places it",
    r"a limit blocked it at its turn and no longer does; the next cycle considers it again",
    r"its queue had too little left at the start of the cycle; the next cycle considers it again",
)
NOTES = r"(?:; .*)?"


def check(objects: list[ApiObject], made: ExplainedPlan) -> None:
    cluster = Cluster(objects, made)
    for row in made.pending:
        for sentence, holds in SENTENCES.items():
            if words := re.fullmatch(sentence + NOTES, row.message):
                holds(words, cluster, row)
                if words.groupdict().get("have") and "nodes fit" in row.message:
                    fewer(words, cluster, row)
                break
        else:
            assert any(re.fullmatch(sentence + NOTES, row.message) for sentence in WITHOUT_NUMBERS), row


@modest
@given(clusters(), policies())
def test_what_is_said_of_jobs_that_wait_is_true(objects: list[ApiObject], policy: Policy) -> None:
    check(objects, decide_and_explain(state_of(objects), policy, make.NOW))


@modest
@given(contended(), evicting_policies())
def test_and_where_pods_are_evicted(objects: list[ApiObject], policy: Policy) -> None:
    check(objects, decide_and_explain(state_of(objects), policy, make.NOW))


@modest
@given(clusters(), policies(actions=("enqueue, reserve, allocate, preempt, reclaim, backfill",)))
def test_and_with_every_action(objects: list[ApiObject], policy: Policy) -> None:
    check(objects, decide_and_explain(state_of(objects), policy, make.NOW))


def said(*objects: Any, **rest: Any) -> dict[str, str]:
    return {job: row.message for job, row in waiting(plan(*objects, **rest)).items()}


def test_what_is_asked_for_does_not_exceed_a_limit_that_is_larger() -> None:
    """64 do not exceed 80: what is allocated already is what makes it too much."""
    nodes = [make.node(f"n{i}", cpu=8, gpu=8) for i in range(16)]
    running = [make.pod(f"r{i}", node=f"n{i}", gpu=8, queue="research") for i in range(4)]
    found = said(
        nodes,
        make.queue("research", capability={make.GPU: 80}),
        running,
        make.gang("g", members=8, queue="research", gpu=8),
    )
    expected = "queue research has 32 of 80 nvidia.com/gpu allocated; 64 more would exceed its capability"
    assert found == {"g": expected}


def test_a_queue_below_what_it_deserves_is_not_called_overused() -> None:
    nodes = [make.node(f"n{i}", cpu=8, gpu=8) for i in range(5)]
    objects = [
        *nodes,
        make.queue("q1"),
        make.queue("q2"),
        *[make.pod(f"r{i}", node="n0" if i < 2 else "n1", gpu=4, queue="q1") for i in range(3)],
        make.group("g", minimum=4, queue="q1", phase="Inqueue"),
        *[make.pod(f"g-{i}", group="g", gpu=4) for i in range(4)],
    ]
    found = said(objects, policy=policy(proportion={"lending": "none"}))
    assert found == {"g": "queue q1 has 12 nvidia.com/gpu allocated and deserves 20; 16 more would exceed that"}


def test_the_dimension_that_stops_a_job_is_the_one_that_is_named() -> None:
    """Above its deserved cpu, which is lent; what stops it is gpu that another queue is guaranteed."""
    found = said(
        [make.node("n1", cpu=8, gpu=8)],
        make.queue("q"),
        make.queue("r", guarantee={make.GPU: 6}),
        make.pod("r", node="n1", cpu=4, gpu=1, queue="q"),
        make.pod("p", cpu=2, gpu=2, queue="q"),
        make.pod("other", cpu=8, queue="r"),
    )
    assert found["p"] == (
        "other queues have or are guaranteed 6 of 8 nvidia.com/gpu; "
        "queue q has 1 allocated, 2 more would exceed the rest"
    )


def test_what_is_nominated_is_not_said_to_be_allocated() -> None:
    found = said(
        [make.node("n1", cpu=4)],
        make.queue("q", capability={"cpu": 2}),
        make.pods("r", 4, node="n1", cpu=1),
        make.pods("p", 3, cpu=1, queue="q"),
        policy=policy(actions="enqueue, allocate, reclaim"),
    )
    assert found["p-2"] == "queue q has 0 of 2 cpu allocated + 2 reserved; 1 more would exceed its capability"
