"""Hard topology is never broken and keeps no gang waiting that one domain could take; soft uses the fewest domains."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy, parse_policy
from fairway.scheduler.plan import Plan
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import Deleted
from oracles.topology import Gang, Machine, broken_rules
from support import engine
from support import objects as make
from support.effort import examples

RACK, ZONE = "example.com/rack", "example.com/zone"
EXAMPLES = examples(60, 2000)
many = settings(max_examples=EXAMPLES, deadline=None)


def policy(actions: Any, score: str) -> Policy:
    names = ["priority", "gang", "drf", "predicates", "proportion", score]
    tiers = [{"plugins": [{"name": name} for name in names]}]
    text = json.dumps({"actions": actions, "topology": {"levels": [ZONE, RACK]}, "tiers": tiers})
    return parse_policy(text, "policy", default_registry().catalog)


@st.composite
def machines(draw: st.DrawFn) -> list[Machine]:
    found = []
    for i in range(draw(st.integers(1, 9))):
        zone = draw(st.sampled_from("ab"))
        rack = draw(st.sampled_from(("1", "2", "3", "")))
        domains = {ZONE: zone, RACK: zone + rack} if rack else {ZONE: zone} if draw(st.booleans()) else {}
        found.append(Machine(f"n{i}", draw(st.integers(0, 6)), domains))
    return found


@st.composite
def gangs(draw: st.DrawFn) -> list[Gang]:
    found = []
    for i in range(draw(st.integers(1, 5))):
        hard = draw(st.booleans())
        key = draw(st.sampled_from((RACK, ZONE)))
        levels = [key] if hard or key == ZONE else [RACK, ZONE]
        found.append(Gang(f"g{i}", draw(st.integers(1, 7)), draw(st.integers(1, 3)), hard, levels))
    return found


def objects_of(machines: list[Machine], gangs: list[Gang]) -> list[ApiObject]:
    # A rack's label says which of its zone it is: only with the zone it is a domain.
    objects = [make.node(m.name, cpu=m.free, labels={key: m.domains[key][-1] for key in m.domains}) for m in machines]
    for order, gang in enumerate(gangs):
        name = f"kueue.x-k8s.io/podset-{'required' if gang.hard else 'preferred'}-topology"
        notes = {name: gang.levels[0]}
        objects.append(make.group(gang.name, minimum=gang.pods, created=order, annotations=notes))
        objects += [make.pod(f"{gang.name}-{i}", group=gang.name, cpu=gang.size) for i in range(gang.pods)]
    return objects


def bound(plan: Plan) -> dict[str, str]:
    return engine.bound(plan)


@many
@given(machines(), gangs(), st.sampled_from(("nodeorder", "binpack")), st.randoms(use_true_random=False))
def test_every_gang_is_where_the_slow_way_wants_it(nodes, jobs, score, random):
    chosen = policy("allocate", score)
    objects = objects_of(nodes, jobs)
    first = engine.plan(objects, policy=chosen)
    assert broken_rules(nodes, jobs, bound(first)) == []
    random.shuffle(objects)
    assert bound(engine.plan(objects, policy=chosen)) == bound(first)


@many
@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 4)), min_size=2, max_size=9), st.integers(1, 16))
def test_a_soft_gang_that_no_domain_takes_uses_the_fewest(racks, pods):
    nodes = [Machine(f"n{i}", free, {ZONE: rack}) for i, (rack, free) in enumerate(racks)]
    jobs = [Gang("g0", pods, 1, False, [ZONE])]
    assert (
        broken_rules(nodes, jobs, bound(engine.plan(objects_of(nodes, jobs), policy=policy("allocate", "nodeorder"))))
        == []
    )


ALL = [
    "enqueue",
    {"name": "reserve", "arguments": {"starvingJobTimeThreshold": 60, "reservedNodePercent": 100}},
    "allocate",
    "preempt",
    "reclaim",
]


@many
@given(machines(), gangs(), st.data())
def test_no_action_ever_spreads_a_hard_gang(nodes, jobs, data):
    """Bindings, reservations and nominations of a hard gang, and what runs, are in one domain, cycle after cycle."""
    modes = data.draw(st.sampled_from(("besteffort", "easy", "conservative")))
    chosen = policy([*ALL, {"name": "backfill", "arguments": {"mode": modes}}], "nodeorder")
    objects = objects_of(nodes, jobs)
    others = [
        make.pod(f"o{i}", cpu=1, node=data.draw(st.sampled_from(nodes)).name, spec={"priority": -1})
        for i in range(data.draw(st.integers(0, 6)))
    ]
    state = engine.state_of(objects, others)
    running: dict[str, str] = {}
    for _ in range(3):
        plan = engine.decided(state, chosen)
        for eviction in plan.evictions:
            running.pop(eviction.pod.removeprefix("default/"), None)
            state.apply(_gone(eviction.pod))
        running |= bound(plan)
        places = dict(running)
        places |= {entry.pod.removeprefix("default/"): entry.node for entry in (*plan.reservations, *plan.nominations)}  # type: ignore[attr-defined]
        for gang in jobs:
            if gang.hard:
                used = [places[f"{gang.name}-{i}"] for i in range(gang.pods) if f"{gang.name}-{i}" in places]
                domains = {next(m.domains.get(gang.levels[0]) for m in nodes if m.name == name) for name in used}
                assert None not in domains
                assert len(domains) <= 1, (gang, places)
        for gang in jobs:
            for i in range(gang.pods):
                name = f"{gang.name}-{i}"
                if name in running:
                    state.upsert([make.pod(name, group=gang.name, cpu=gang.size, node=running[name])])


def _gone(pod: str) -> Deleted:
    return Deleted(make.pod(pod.removeprefix("default/")))
