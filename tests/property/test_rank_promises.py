"""Ranks are laid out with the fewest changes of domain that the chosen nodes allow, and nothing else changes."""

import json
from typing import Any, NamedTuple

from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy, parse_policy
from fairway.scheduler.plan import ExplainedPlan
from fairway.scheduler.plugins.installed import default_registry
from fairway.scheduler.topology.ranks import arrange
from fairway.scheduler.topology.ranks import changes as changes_of_paths
from oracles.ranks import Ranked, changes, fewest_changes
from support import engine
from support import objects as make
from support.effort import examples

BLOCK, RACK = "example.com/block", "example.com/rack"
INDEX, NO_INDEX = "batch.kubernetes.io/job-completion-index", "example.com/some-number"
ACTIONS = [
    "enqueue",
    {"name": "reserve", "arguments": {"starvingJobTimeThreshold": 60, "reservedNodePercent": 50}},
    *("allocate", "preempt", "reclaim", "backfill"),
]
many = hypothesis_settings(max_examples=examples(60, 2000), deadline=None)


def policy(actions: Any, score: str) -> Policy:
    names = ["priority", "gang", "drf", "predicates", "proportion", score]
    tiers = [{"plugins": [{"name": name} for name in names]}]
    text = json.dumps({"actions": actions, "topology": {"levels": [BLOCK, RACK]}, "tiers": tiers})
    return parse_policy(text, "policy", default_registry().catalog)


class Member(NamedTuple):
    job: str
    number: int
    size: int
    node: str
    indexed: bool

    @property
    def name(self) -> str:
        return f"{self.job}-{self.number}"


class Case(NamedTuple):
    nodes: list[ApiObject]
    domains: dict[str, tuple[str, str]]
    groups: list[ApiObject]
    members: list[Member]
    others: list[ApiObject]

    def objects(self, label: str) -> list[ApiObject]:
        pods = [
            make.pod(
                member.name,
                group=member.job,
                cpu=member.size,
                node=member.node,
                labels={label: str(member.number)} if member.indexed else None,
            )
            for member in self.members
        ]
        return [*self.nodes, *self.groups, *pods, *self.others]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    free: dict[str, int] = {}
    domains: dict[str, tuple[str, str]] = {}
    nodes = []
    for i in range(draw(st.integers(2, 6))):
        block, rack = draw(st.sampled_from(("", "a", "b"))), draw(st.sampled_from(("", "1", "2")))
        name = f"n{i}"
        free[name], domains[name] = draw(st.integers(1, 4)), (block, rack)
        labels = {key: text for key, text in ((BLOCK, block), (RACK, rack)) if text}
        nodes.append(make.node(name, cpu=free[name], labels=labels))
    members, groups = [], []
    for job in "gh":
        count = draw(st.integers(1, 9))
        indexed = draw(st.integers(0, 9)) < 8
        waiting = 0
        for index in draw(st.permutations(range(8, 8 + count))):
            size = draw(st.sampled_from((1, 1, 1, 2)))
            node = draw(st.sampled_from(sorted(free)))
            running = free[node] >= size and (waiting == 6 or draw(st.integers(0, 2)) == 0)
            if not running and waiting == 6:
                continue  # the slow way tries all orders of them
            free[node] -= size * running
            waiting += not running
            members.append(Member(job, index, size, node if running else "", indexed and draw(st.integers(0, 9)) < 9))
        groups.append(make.group(job, minimum=draw(st.integers(1, count)), created=draw(st.integers(0, 3))))
    others = []
    for i, node in enumerate(sorted(free)):
        if free[node] and draw(st.booleans()):
            free[node] -= 1
            others.append(make.pod(f"o{i}", cpu=1, node=node, spec={"priority": draw(st.sampled_from((-1, 0)))}))
    return Case(nodes, domains, groups, members, others)


def rest(plan: ExplainedPlan) -> Any:
    """All that a plan says, but for which of a job's equal pods is on which node."""
    said = plan.document()
    said["bindings"] = [{**binding, "node": ""} for binding in said["bindings"]]
    return said


@many
@given(cases(), st.sampled_from(("nodeorder", "binpack")), st.sampled_from(("allocate", ACTIONS)))
def test_ranks_change_domain_as_rarely_as_the_nodes_allow(case: Case, score: str, actions: Any) -> None:
    chosen = policy(actions, score)
    plan, plain = (engine.plan(case.objects(label), policy=chosen) for label in (INDEX, NO_INDEX))
    assert rest(plan) == rest(plain)
    found, before = engine.bound(plan), engine.bound(plain)
    size = {member.name: (member.job, member.size) for member in case.members}
    for where in (found, before):
        assert sorted((size[name], node) for name, node in where.items()) == sorted(
            (size[name], node) for name, node in before.items()
        )
    gone = {eviction.pod.removeprefix("default/") for eviction in plan.evictions}
    for job in "gh":
        members = sorted((m for m in case.members if m.job == job and m.indexed), key=lambda m: m.number)
        placed = [m for m in members if m.name in found or (m.node and m.name not in gone)]
        pods = [Ranked(found.get(m.name, m.node), None if m.node else m.size) for m in placed]
        if pods:
            assert changes([pod.node for pod in pods], case.domains) == fewest_changes(pods, case.domains)
    for member in case.members:
        if not member.indexed:
            assert found.get(member.name) == before.get(member.name)


@many
@given(cases(), st.randoms(use_true_random=False))
def test_order_of_input_does_not_matter(case: Case, random: Any) -> None:
    chosen, objects = policy("allocate", "nodeorder"), case.objects(INDEX)
    first = engine.plan(objects, policy=chosen)
    random.shuffle(objects)
    assert engine.bound(engine.plan(objects, policy=chosen)) == engine.bound(first)


BETTER_BY_CHANCE = [(6, 0), (6, 1), (4, 1), (4, 0), (5, 0), (12, 0), (19, 0), (26, 0)]
"""Too many places to search, and a better order than those that are tried instead."""


@many
@example(BETTER_BY_CHANCE)
@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from((-1, 0, 0, 0, 1))), min_size=1, max_size=80))
def test_large_gangs_never_get_more_changes_and_keep_their_places(ranks: list[tuple[int, int]]) -> None:
    """Three levels: ten nodes to a block, three to a rack."""
    own = [(0, node // 10, 4 * (node // 10) + node % 10 // 3, node) for node, _ in ranks]
    pools = [pool for _, pool in ranks]
    found = arrange(own, pools)
    assert changes_of_paths(found) <= changes_of_paths(own)
    for pool in set(pools):
        mine = [i for i in range(len(own)) if pools[i] == pool]
        assert sorted(found[i] for i in mine) == sorted(own[i] for i in mine)
    assert all(found[i] == own[i] for i in range(len(own)) if pools[i] == -1)
    if set(pools) == {0}:
        assert changes_of_paths(found) == tuple(len(set(level)) - 1 for level in zip(*own, strict=True))
