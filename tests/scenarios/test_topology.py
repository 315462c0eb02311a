"""Gangs in one domain of the network, or in few: labels, HyperNodes, and all who ask in their own words."""

import json
from typing import Any

import pytest

from fairway.api.kinds import ApiObject
from fairway.api.manifests import parse_object
from fairway.api.policy import Policy, parse_policy
from fairway.scheduler.plan import Plan
from fairway.scheduler.plugins.installed import default_registry
from support import engine
from support.contention import running
from support.engine import bound, plan, waiting
from support.objects import made, node, pod

RACK, ZONE = "topology.kubernetes.io/rack", "topology.kubernetes.io/zone"
LEVELS = [ZONE, RACK]


def policy(actions: Any = "enqueue, allocate, backfill", levels: list[str] = LEVELS) -> Policy:
    tiers = [{"plugins": [{"name": name} for name in engine.PLUGINS]}]
    text = json.dumps({"actions": actions, "topology": {"levels": levels}, "tiers": tiers})
    return parse_policy(text, "policy", default_registry().catalog)


def cluster(**racks: int) -> list[ApiObject]:
    """One node of four cpu for each unit of a rack's size; racks `a1`, `a2` are in zone `a`."""
    return [
        node(f"{rack}-n{i}", cpu=4, labels={RACK: rack, ZONE: rack[0]})
        for rack, size in racks.items()
        for i in range(size)
    ]


def gang(name: str, members: int, spec: dict[str, Any], *, minimum: int | None = None, **more: Any) -> list[ApiObject]:
    group = made("PodGroup", name, "default", spec={"minMember": members if minimum is None else minimum, **spec})
    return [group, *(pod(f"{name}-{i}", group=name, cpu=4, **more) for i in range(members))]


def kube(name: str, members: int, *, version: str = "v1beta1", key: str = RACK, **spec: Any) -> list[ApiObject]:
    group = parse_object(
        {
            "apiVersion": f"scheduling.k8s.io/{version}",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": members}},
                "schedulingConstraints": {"topology": [{"key": key}]},
                **spec,
            },
        }
    )
    own: dict[str, Any] = {"schedulingGroup": {"podGroupName": name}}
    if "priority" in spec:
        own["priority"] = spec["priority"]  # a group's priority counts up to that of its pods
    return [group, *(pod(f"{name}-{i}", cpu=4, spec=own) for i in range(members))]


def important(name: str) -> ApiObject:
    """A pod of the group g that is more important than others."""
    return pod(name, cpu=4, spec={"schedulingGroup": {"podGroupName": "g"}, "priority": 9})


def racks(found: Plan, name: str) -> list[str]:
    return sorted({node.split("-")[0] for key, node in bound(found).items() if key.startswith(f"{name}-")})


HARD = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
SOFT = {"networkTopology": {"mode": "soft"}}


def kueue(hard: bool, key: str = RACK) -> dict[str, Any]:
    return {"annotations": {f"kueue.x-k8s.io/podset-{'required' if hard else 'preferred'}-topology": key}}


class TestHard:
    @pytest.mark.parametrize(
        "job",
        [
            kube("g", 3),
            kube("g", 3, version="v1alpha2", disruptionMode="PodGroup"),
            gang("g", 3, HARD),
            gang("g", 3, {}, **kueue(True)),
        ],
        ids=["kubernetes", "v1alpha2", "volcano", "kueue"],
    )
    def test_all_that_ask_mean_one_domain(self, job: list[ApiObject]) -> None:
        assert racks(plan(cluster(a1=2, a2=3, b1=4), job, policy=policy()), "g") == ["a2"], "the tightest that takes it"
        seen = waiting(plan(cluster(a1=2, a2=2, b1=2), job, policy=policy()))["g"]
        assert seen.reason == "GangNotReady"
        assert seen.message == f"no domain of {RACK} can take 3 pods at once: the largest takes 2"

    def test_an_implicit_job_asks_by_its_pods(self) -> None:
        notes = {**kueue(True)["annotations"], "fairway.dev/min-available": "3"}
        pods = [pod(f"g-{i}", owner="Job/g", cpu=4, annotations=notes) for i in range(3)]
        assert racks(plan(cluster(a1=2, a2=3), pods, policy=policy()), "g") == ["a2"]
        assert bound(plan(cluster(a1=2, a2=2), pods, policy=policy())) == {}

    def test_nodes_without_the_label_are_in_no_domain(self) -> None:
        bare = [node(f"x{i}", cpu=4) for i in range(3)]
        seen = waiting(plan(bare, kube("g", 2), policy=policy()))["g"]
        assert seen.message == f"no node is in a domain of {RACK}"

    def test_a_key_that_no_node_has_leaves_nothing_behind(self) -> None:
        state = engine.state_of(cluster(a1=2), [kube(f"g{i}", 2, key=f"made-up-{i}") for i in range(9)])
        assert bound(engine.decided(state, policy())) == {}
        assert not [key for key in state.nodes.labels._columns if key.startswith("made-up")]

    def test_running_members_fix_the_domain(self) -> None:
        job = kube("g", 3)
        job[1] = pod("g-0", node="a1-n0", cpu=4, spec={"schedulingGroup": {"podGroupName": "g"}})
        assert racks(plan(cluster(a1=3, b1=9), job, policy=policy()), "g") == ["a1"]
        seen = waiting(plan(cluster(a1=2, b1=9), job, policy=policy()))["g"]
        assert seen.message == f"its other pods are in a/a1 of {RACK}, which can take 1 of the 2 more pods it needs"

    def test_pods_above_the_minimum_stay_with_the_others(self) -> None:
        job = gang("g", 5, HARD, minimum=2)
        assert racks(plan(cluster(a1=3, b1=2), job, policy=policy()), "g") == ["b1"], "the tightest takes the minimum"
        elastic = plan(cluster(a1=3), job, policy=policy())
        assert len(bound(elastic)) == 3
        assert waiting(elastic)["g"].ready == 3

    def test_two_gangs_take_a_domain_each(self) -> None:
        found = plan(cluster(a1=2, a2=2, b1=1), kube("g", 2), kube("h", 2), policy=policy())
        assert sorted(racks(found, "g") + racks(found, "h")) == ["a1", "a2"]

    @pytest.mark.parametrize("mode", ["hard", "soft"])
    def test_of_domains_that_are_large_enough_the_fullest_is_taken(self, mode: str) -> None:
        """Though each node could take the whole gang, what is used elsewhere tells the domains apart."""
        nodes = [
            node(f"{rack}-n{i}", cpu=16, labels={RACK: rack, ZONE: rack[0]}) for rack in ("a1", "a2") for i in "01"
        ]
        used = [pod("r", node="a2-n0", cpu=1)]
        notes = {f"kueue.x-k8s.io/podset-{'required' if mode == 'hard' else 'preferred'}-topology": RACK}
        pods = [pod(f"g-{i}", owner="Job/g", cpu=4, annotations=notes) for i in range(2)]
        found = bound(plan(nodes, used, pods, policy=policy()))
        assert {place[:2] for place in found.values()} == {"a2"}

    def test_a_gang_of_different_pods(self) -> None:
        small = [pod("g-a", group="g", cpu=2), pod("g-b", group="g", cpu=2), pod("g-l", group="g", cpu=4)]
        group = made("PodGroup", "g", "default", spec={"minMember": 3, **HARD})
        assert racks(plan(cluster(a1=1, b1=2), group, small, policy=policy()), "g") == ["b1"]
        seen = waiting(plan(cluster(a1=1, b1=1), group, small, policy=policy()))["g"]
        assert seen.message == f"no domain of {RACK} can take 3 pods at once: the largest takes 2"

    def test_a_start_over_several_cycles_stays_in_its_domain(self) -> None:
        job = gang("g", 4, HARD, minimum=2)
        state = engine.state_of(cluster(a1=2, b1=3), job)
        first = engine.decided(state, policy())
        assert racks(first, "g") == ["a1"]
        for binding in first.bindings:
            name = binding.pod.removeprefix("default/")
            state.upsert([pod(name, group="g", cpu=4, node=binding.node)])
        assert bound(engine.decided(state, policy())) == {}, "more pods would be in another rack"

    def test_without_any_levels_it_says_so(self) -> None:
        seen = waiting(plan(cluster(a1=3), gang("g", 2, HARD), policy=policy(levels=[])))["g"]
        assert "there are no HyperNodes of an allowed tier, and the policy lists no topology.levels" in seen.message


class TestSoft:
    @pytest.mark.parametrize("job", [gang("g", 4, SOFT), gang("g", 4, {}, **kueue(False))], ids=["volcano", "kueue"])
    def test_few_domains_lowest_tier_first(self, job: list[ApiObject]) -> None:
        assert racks(plan(cluster(a1=3, a2=3, b1=4), job, policy=policy()), "g") == ["b1"], "one rack"
        assert racks(plan(cluster(a1=2, a2=2, b1=3), job, policy=policy()), "g") == ["a1", "a2"], "one zone"
        assert racks(plan(cluster(a1=1, b1=2, c1=3), job, policy=policy()), "g") == ["a1", "c1"], (
            "few, the tightest last"
        )
        assert len(bound(plan([node(f"x{i}", cpu=4) for i in range(4)], job, policy=policy()))) == 4, "anywhere"

    def test_inside_a_zone_that_takes_it_few_racks_are_used(self) -> None:
        found = plan(cluster(a1=1, a2=2, a3=3), gang("g", 4, SOFT), policy=policy())
        assert racks(found, "g") == ["a1", "a3"], "3 and 1, not whatever comes first by name"

    def test_more_pods_go_where_the_others_are(self) -> None:
        job = gang("g", 3, SOFT, minimum=1)
        job[1] = pod("g-0", group="g", node="b1-n0", cpu=4)
        assert racks(plan(cluster(a1=9, b1=3), job, policy=policy()), "g") == ["b1"]
        assert racks(plan(cluster(a1=9, b1=2, b2=1), job, policy=policy()), "g") == ["b1", "b2"], "the zone next"


class TestHyperNodes:
    def hyper(self, name: str, tier: int, *members: dict[str, Any]) -> ApiObject:
        return made("HyperNode", name, spec={"tier": tier, "members": list(members)})

    def exact(self, kind: str, *names: str) -> list[dict[str, Any]]:
        return [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in names]

    def network(self) -> list[ApiObject]:
        return [
            self.hyper("s1", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": "^a1-"}}}),
            self.hyper("s2", 1, {"type": "Node", "selector": {"labelMatch": {"matchLabels": {RACK: "a2"}}}}),
            self.hyper("s3", 1, *self.exact("Node", "b1-n0", "b1-n1")),
            self.hyper("t1", 2, *self.exact("HyperNode", "s1", "s2")),
            self.hyper("t2", 2, *self.exact("HyperNode", "s3")),
        ]

    def test_hard_up_to_a_tier(self) -> None:
        nodes = [cluster(a1=2, a2=2, b1=2), self.network()]
        assert bound(plan(nodes, gang("g", 3, HARD), policy=policy())) == {}
        two = {"networkTopology": {"mode": "hard", "highestTierAllowed": 2}}
        assert racks(plan(nodes, gang("g", 3, two), policy=policy()), "g") == ["a1", "a2"]
        seen = waiting(plan(nodes, gang("g", 5, two), policy=policy()))["g"]
        said = "no domain of HyperNodes of tier 1 or HyperNodes of tier 2 can take 5 pods at once: the largest takes 4"
        assert seen.message == said

    def test_soft_prefers_the_lowest_tier(self) -> None:
        nodes = [cluster(a1=2, a2=2, b1=2), self.network()]
        assert len(racks(plan(nodes, gang("g", 2, SOFT), policy=policy()), "g")) == 1
        assert racks(plan(nodes, gang("g", 3, SOFT), policy=policy()), "g") == ["a1", "a2"]
        assert len(bound(plan(nodes, gang("g", 5, SOFT), policy=policy()))) == 5

    def test_a_circle_of_members_ends(self) -> None:
        circle = [self.hyper(f"c{i}", 1, *self.exact("HyperNode", f"c{1 - i}")) for i in range(2)]
        assert bound(plan(cluster(a1=2), circle, gang("g", 2, HARD), policy=policy())) == {}

    def test_changes_are_seen(self) -> None:
        state = engine.state_of(cluster(a1=2), gang("g", 2, HARD), self.hyper("s", 1, *self.exact("Node", "a1-n0")))
        assert bound(engine.decided(state, policy())) == {}
        state.upsert([self.hyper("s", 1, *self.exact("Node", "a1-n0", "a1-n1"))])
        assert len(bound(engine.decided(state, policy()))) == 2


class TestOtherActions:
    def test_preempt_makes_room_in_one_domain(self) -> None:
        preempt = policy("enqueue, allocate, preempt")
        low = [pod(f"low-{i}", node=name, cpu=4) for i, name in enumerate(("a1-n0", "b1-n0", "c1-n0", "c1-n1"))]
        job = [*kube("g", 2, priority=9)[:1], *(important(f"g-{i}") for i in range(2))]
        found = plan(cluster(a1=1, b1=1, c1=2), low, job, policy=preempt)
        assert sorted(eviction.node for eviction in found.evictions) == ["c1-n0", "c1-n1"]
        assert not plan(cluster(a1=1, b1=1), low[:2], job, policy=preempt).evictions

    @pytest.mark.parametrize("cheapest", ["a1", "b1", "c1"])
    def test_preempt_evicts_in_the_domain_where_least_work_is_lost(self, cheapest: str) -> None:
        """In b1 two pods make room, in the others four: work lost counts first, whatever the order of domains."""
        preempt = policy("enqueue, allocate, preempt")
        low: list[Any] = []
        for rack in ("a1", "b1", "c1"):
            started = 90 if rack == cheapest else 10
            for i in range(2):
                sizes = (4,) if rack == "b1" else (2, 2)
                low += [running(f"{rack}-{i}-{j}", f"{rack}-n{i}", cpu=n, started=started) for j, n in enumerate(sizes)]
        job = [*kube("g", 2, priority=9)[:1], *(important(f"g-{i}") for i in range(2))]
        found = plan(cluster(a1=2, b1=2, c1=2), low, job, policy=preempt)
        assert {entry.node.split("-")[0] for entry in found.evictions} == {cheapest}

    def test_reserve_keeps_one_domain(self) -> None:
        arguments = {"starvingJobTimeThreshold": 60, "reservedNodePercent": 100}
        reserving = policy(["enqueue", {"name": "reserve", "arguments": arguments}, "allocate"])
        busy = [pod(f"low-{i}", node=name, cpu=1) for i, name in enumerate(("a1-n0", "b1-n0", "c1-n0", "c1-n1"))]
        job = gang("g", 2, HARD)
        job[0] = made(
            "PodGroup", "g", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}, spec={"minMember": 2, **HARD}
        )
        found = plan(cluster(a1=1, b1=1, c1=2), busy, job, policy=reserving)
        assert sorted(entry.node for entry in found.reservations) == ["c1-n0", "c1-n1"]
        assert not plan(cluster(a1=1, b1=1), busy[:2], job, policy=reserving).reservations

    @pytest.mark.parametrize("mode", ["easy", "conservative"])
    def test_backfill_plans_no_start_for_it(self, mode: str) -> None:
        ahead = policy(["enqueue", "allocate", {"name": "backfill", "arguments": {"mode": mode}}])
        busy = [pod(f"r-{n}", node=n, cpu=4, spec={"activeDeadlineSeconds": 60}) for n in ("a1-n0", "b1-n0")]
        found = plan(cluster(a1=2, b1=2), busy, gang("g", 2, HARD), policy=ahead)
        assert bound(found) == {}
        assert not found.reservations


class TestGroupsOfKubernetes:
    def test_priority_and_whole_disruption(self) -> None:
        preempt = policy("enqueue, allocate, preempt")
        group = kube("v", 1, priority=1, disruptionMode={"all": {}})[0]
        running = [
            pod(f"v-{i}", node=f"a1-n{i}", cpu=4, spec={"schedulingGroup": {"podGroupName": "v"}}) for i in range(2)
        ]
        found = plan(cluster(a1=2), group, running, pod("c", cpu=4, spec={"priority": 9}), policy=preempt)
        assert len(found.evictions) == 2, "both go, though one is above the minimum"

    def test_basic_places_pods_one_by_one(self) -> None:
        group = parse_object(
            {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": {"name": "g", "namespace": "default"},
                "spec": {"schedulingPolicy": {"basic": {}}},
            }
        )
        pods = [pod(f"g-{i}", cpu=4, spec={"schedulingGroup": {"podGroupName": "g"}}) for i in range(3)]
        assert len(bound(plan(cluster(a1=2), group, pods, policy=policy()))) == 2

    def test_scheduler_plugins(self) -> None:
        group = parse_object(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": "g", "namespace": "default"},
                "spec": {"minMember": 3, "scheduleTimeoutSeconds": 10},
            }
        )
        pods = [pod(f"g-{i}", cpu=4, labels={"scheduling.x-k8s.io/pod-group": "g"}) for i in range(3)]
        assert bound(plan(cluster(a1=2), group, pods, policy=policy())) == {}
        assert len(bound(plan(cluster(a1=3), group, pods, policy=policy()))) == 3


class TestPaths:
    """A domain is a path of labels from the highest level to its own."""

    NODES = tuple(
        node(f"{zone}-{rack}", cpu=4, labels={ZONE: zone, RACK: rack}) for zone in "ab" for rack in ("r1", "r2")
    )

    def test_racks_of_one_name_in_two_zones_are_two_racks(self):
        found = plan(self.NODES, kube("g", 2), policy=policy())
        assert bound(found) == {}, "no rack has two nodes, though two nodes are in a rack r1"
        assert len(bound(plan(self.NODES, kube("g", 2, key=ZONE), policy=policy()))) == 2

    def test_without_levels_in_the_policy_a_label_stands_for_itself(self):
        assert len(bound(plan(self.NODES, kube("g", 2), policy=policy(levels=[])))) == 2

    def test_a_soft_request_prefers_the_true_rack(self):
        notes = {"kueue.x-k8s.io/podset-preferred-topology": RACK}
        both = [*self.NODES, node("b-r1x", cpu=4, labels={ZONE: "b", RACK: "r1"})]
        group = [made("PodGroup", "g", "default", metadata={"annotations": notes}, spec={"minMember": 2})]
        pods = [pod(f"g-{i}", group="g", cpu=4) for i in range(2)]
        assert sorted(bound(plan(both, group, pods, policy=policy())).values()) == ["b-r1", "b-r1x"]


class TestWhatCannotBeHonoured:
    """A job waits with a reason rather than be placed without what it asks for."""

    def waits(self, *objects):
        (row,) = waiting(plan(cluster(a1=2), *objects, policy=policy())).values()
        assert row.reason == "TopologyNotSupported"
        return row.message

    def test_sub_groups(self):
        near = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
        spec = {"subGroupPolicy": [{"name": "workers", "subGroupSize": 2, **near}]}
        assert self.waits(gang("g", 2, spec)) == (
            "spec.subGroupPolicy of its PodGroup is not supported yet; "
            "the job stays pending rather than being placed without it"
        )

    def test_sub_groups_of_a_job_that_starts_with_some_of_its_pods(self):
        spec = {"subGroupPolicy": [{"name": "workers", "subGroupSize": 2}]}
        assert self.waits(gang("g", 2, spec), pod("g-9", group="g", cpu=1)) == (
            "spec.subGroupPolicy of its PodGroup is supported only for jobs that start with all of their pods; the "
            "minimum of this one is 2 of 3"
        )

    @pytest.mark.parametrize(
        ("own", "theirs", "honoured"),
        [
            (None, None, True),
            (("hard", 1), None, True),
            (("hard", 1), ("hard", 1), True),
            (("hard", 1), ("hard", 2), True),
            (("hard", 1), ("hard", None), True),
            (("hard", 2), ("hard", 1), False),
            (("hard", None), ("hard", 1), False),
            (("soft", 1), ("hard", 1), False),
            (("hard", 1), ("soft", 1), False),
            (None, ("hard", 1), False),
        ],
    )
    def test_sub_groups_that_the_job_s_own_minimum_and_topology_imply(self, own, theirs, honoured):
        def said(asked):
            if asked is None:
                return {}
            mode, tier = asked
            return {"networkTopology": {"mode": mode, **({"highestTierAllowed": tier} if tier else {})}}

        tier = made("HyperNode", "s", spec={"tier": 1, "members": [
            {"type": "Node", "selector": {"exactMatch": {"name": "n"}}}]})  # fmt: skip
        spec = {**said(own), "subGroupPolicy": [{"name": "workers", "subGroupSize": 1, **said(theirs)}]}
        found = plan(node("n", cpu=64), tier, gang("g", 2, spec), policy=policy())
        assert len(bound(found)) == (2 if honoured else 0)

    @pytest.mark.parametrize("name", ["podset-slice-required-topology", "podset-slice-size"])
    def test_slices(self, name):
        notes = {f"kueue.x-k8s.io/{name}": "2", "kueue.x-k8s.io/podset-required-topology": RACK}
        pods = [pod(f"g-{i}", owner="Job/g", cpu=1, annotations=notes) for i in range(2)]
        assert f"the annotation kueue.x-k8s.io/{name} is not supported yet" in self.waits(pods)

    def test_a_tier_by_name(self):
        spec = {"networkTopology": {"mode": "hard", "highestTierName": "rack"}}
        assert "no HyperNode has the tierName 'rack'" in self.waits(gang("g", 2, spec))

        def hyper(name, tier, tier_name, *members):
            listed = [{"type": "Node", "selector": {"exactMatch": {"name": member}}} for member in members]
            return made("HyperNode", name, spec={"tier": tier, "tierName": tier_name, "members": listed})

        nodes = [node(f"n{i}", cpu=4) for i in range(4)]
        tiers = [
            hyper("s0", 1, "rack", "n0"),
            hyper("s1", 1, "rack", "n1"),
            hyper("s2", 2, "block", "n0", "n1", "n2", "n3"),
        ]
        assert bound(plan(nodes, tiers, gang("g", 2, spec), policy=policy())) == {}
        wider = {"networkTopology": {"mode": "hard", "highestTierName": "block"}}
        assert len(bound(plan(nodes, tiers, gang("g", 2, wider), policy=policy()))) == 2
