"""Where a pod may go, by the rules of Kubernetes."""

from typing import Any

import pytest

from support import objects as make
from support.engine import bound, decided, plan, policy, state_of, waiting
from support.objects import expression
from support.scenario import Scenario, nothing_waits, only, placed, scenarios, waits

ZONES = [
    make.node("n1", cpu=8, labels={"zone": "a", "gen": "7", "disk": "ssd"}),
    make.node("n2", cpu=8, labels={"zone": "b", "gen": "10"}),
    make.node("n3", cpu=8, labels={"zone": "b", "gen": "1_0"}),
    make.node("n4", cpu=8),
]
NEAR_BOTH = make.both_affinities(make.affinity("zone", app="db"), make.affinity("zone", tier="x"))


@pytest.mark.parametrize(
    ("requirement", "nodes"),
    [
        (expression("zone", "In", "a", "c"), {"n1"}),
        (expression("zone", "NotIn", "b"), {"n1", "n4"}),
        (expression("disk", "Exists"), {"n1"}),
        (expression("disk", "DoesNotExist"), {"n2", "n3", "n4"}),
        (expression("gen", "Gt", "7"), {"n2"}),
        (expression("gen", "Gt", "6"), {"n1", "n2"}),
        (expression("gen", "Lt", "10"), {"n1"}),
        (expression("gen", "Gt", "-1"), {"n1", "n2"}),
    ],
    ids=lambda value: f"{value['operator']} {value['key']} {','.join(value['values'])}" if "key" in value else "",
)
def test_every_operator_of_node_affinity(requirement, nodes):
    made = plan(ZONES, make.gang("g", members=32, minimum=0, cpu=1, spec=make.node_affinity([requirement])))
    assert set(bound(made).values()) == nodes


def field(*names):
    term = {"matchFields": [expression("metadata.name", "In", *names)]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def tolerations(*given):
    return {"tolerations": list(given)}


TAINTED = [make.node("n1", cpu=1, taints=["gpu=true:NoSchedule"]), make.node("n2", cpu=1, taints=["old:NoExecute"])]
EXISTS = {"operator": "Exists"}

SCENARIOS = (
    Scenario(
        "one of the terms suffices, all expressions of a term must hold",
        nodes=ZONES,
        jobs=[
            make.pod(
                "p",
                cpu=1,
                spec=make.node_affinity(
                    [expression("zone", "In", "a"), expression("disk", "DoesNotExist")],
                    [expression("zone", "In", "b"), expression("gen", "In", "1_0")],
                ),
            )
        ],
        expect=placed(p="n3"),
    ),
    Scenario(
        "a node may be meant by its name",
        nodes=ZONES,
        jobs=[make.pod("p", cpu=1, spec=field("n4"))],
        expect=placed(p="n4"),
    ),
    Scenario(
        "selector and affinity both count",
        nodes=ZONES,
        jobs=[
            make.pod(
                "p", cpu=1, spec={"nodeSelector": {"zone": "a"}, **make.node_affinity([expression("zone", "In", "b")])}
            )
        ],
        expect=waits("p", "PredicateFailed", node_selector=3, node_affinity=1),
    ),
    Scenario(
        "taints keep off who does not tolerate them",
        nodes=TAINTED,
        jobs=[make.pod("p", cpu=1)],
        expect=waits("p", "PredicateFailed", **{"untolerated_taint_gpu=true": 1, "untolerated_taint_old": 1}),
    ),
    Scenario(
        "a toleration of the key",
        nodes=TAINTED,
        jobs=[make.pod("p", cpu=1, spec=tolerations({"key": "gpu", **EXISTS}))],
        expect=placed(p="n1"),
    ),
    Scenario(
        "a toleration of key and value",
        nodes=TAINTED,
        jobs=[
            make.pod("p", cpu=1, spec=tolerations({"key": "gpu", "value": "true"})),
            make.pod("q", cpu=1, spec=tolerations({"key": "gpu", "value": "false"})),
        ],
        expect=[only("p"), waits("q", "PredicateFailed")],
    ),
    Scenario(
        "a toleration of one effect only",
        nodes=TAINTED,
        jobs=[make.pod("p", cpu=1, spec=tolerations({**EXISTS, "effect": "NoExecute"}))],
        expect=placed(p="n2"),
    ),
    Scenario(
        "who tolerates everything goes everywhere, cordoned nodes too",
        nodes=[*TAINTED, make.node("n3", cpu=1, unschedulable=True)],
        jobs=make.gang("g", members=3, cpu=1, spec=tolerations(EXISTS)),
        expect=nothing_waits,
    ),
    Scenario(
        "PreferNoSchedule keeps no pod off, but others go first",
        nodes=[make.node("n1", cpu=1, taints=["old:PreferNoSchedule"]), make.node("n2", cpu=1)],
        jobs=make.pods("p", 2, cpu=1),
        expect=placed(p_0="n2", p_1="n1"),
    ),
    Scenario(
        "two pods cannot have one host port on a node",
        nodes=[make.node("n1", cpu=8), make.node("n2", cpu=8)],
        jobs=make.gang("g", members=3, minimum=0, cpu=1, ports=[80]),
        expect=[placed(g=2), waits("g", "PredicateFailed", host_ports_taken=2)],
    ),
    Scenario(
        "a host port that a running pod has",
        nodes=[make.node("n1", cpu=8), make.node("n2", cpu=2)],
        jobs=[make.pod("r", cpu=1, node="n1", ports=[80]), make.pod("p", cpu=1, ports=[80, 81])],
        expect=placed(p="n2"),
    ),
    Scenario(
        "on the host's network every port is the host's",
        nodes=[make.node("n1", cpu=8)],
        jobs=[
            make.pod(
                "a",
                cpu=1,
                created=1,
                spec={
                    "hostNetwork": True,
                    "containers": [{"name": "c", "ports": [{"containerPort": 80}]}],
                },
            ),
            make.pod("b", cpu=1, created=2, ports=[80]),
        ],
        policy=policy(actions="enqueue, backfill, allocate"),
        expect=[only("a"), waits("b", "PredicateFailed", host_ports_taken=1)],
    ),
    Scenario(
        "anti-affinity against one's own kind: one to a node",
        nodes=[make.node(f"n{i}", cpu=8) for i in range(3)],
        jobs=make.gang("g", members=4, minimum=0, cpu=1, labels={"app": "g"}, spec=make.anti_affinity(app="g")),
        expect=[placed(g=3), waits("g", "PredicateFailed", **{"pod_anti-affinity": 3})],
    ),
    Scenario(
        "anti-affinity by zone: one to a zone, nodes without a zone are in none",
        nodes=ZONES,
        jobs=make.gang("g", members=9, minimum=0, cpu=1, labels={"app": "g"}, spec=make.anti_affinity("zone", app="g")),
        expect=lambda made: _one_per_zone(made),
    ),
    Scenario(
        "a pod already there keeps others off its node by its anti-affinity",
        nodes=[make.node("n1", cpu=8), make.node("n2", cpu=2)],
        jobs=[
            make.pod("there", cpu=1, node="n1", spec=make.anti_affinity(app="web")),
            make.pod("p", cpu=1, labels={"app": "web"}),
            make.pod("q", cpu=2, labels={"app": "web"}),
        ],
        expect=[
            placed(p="n2"),
            waits("q", "InsufficientResources", **{"anti-affinity_of_pods_already_there": 1, "insufficient_cpu": 1}),
        ],
    ),
    Scenario(
        "and so does a pod placed in this very cycle, in its whole zone",
        nodes=[make.node(f"n{i}", cpu=8, labels={"zone": "a"}) for i in range(3)],
        jobs=[
            make.pod("first", cpu=1, created=1, spec=make.anti_affinity("zone", app="web")),
            make.pod("p", cpu=1, created=2, labels={"app": "web"}),
        ],
        expect=[only("first"), waits("p", "PredicateFailed", **{"anti-affinity_of_pods_already_there": 3})],
    ),
    Scenario(
        "affinity goes where the others are",
        nodes=ZONES,
        jobs=[
            make.pod("r", cpu=1, node="n2", labels={"app": "db"}),
            make.gang("g", members=16, minimum=0, cpu=1, spec=make.affinity("zone", app="db")),
        ],
        expect=lambda made: _on(made, {"n2", "n3"}),
    ),
    Scenario(
        "several affinities must be met by one and the same pod",
        nodes=ZONES,
        jobs=[
            make.pod("a", cpu=1, node="n2", labels={"app": "db"}),
            make.pod("b", cpu=1, node="n3", labels={"tier": "x"}),
            make.pod("p", cpu=1, spec=NEAR_BOTH),
        ],
        expect=waits("p", "PredicateFailed", pod_affinity=4),
    ),
    Scenario(
        "and go where that pod is",
        nodes=ZONES,
        jobs=[
            make.pod("a", cpu=1, node="n1", labels={"app": "db"}),
            make.pod("b", cpu=1, node="n2", labels={"app": "db", "tier": "x"}),
            make.gang("g", members=15, minimum=0, cpu=1, spec=NEAR_BOTH),
        ],
        expect=lambda made: _on(made, {"n2", "n3"}),
    ),
    Scenario(
        "affinity to no pod waits",
        nodes=ZONES,
        jobs=[make.pod("p", cpu=1, spec=make.affinity("zone", app="db"))],
        expect=waits("p", "PredicateFailed", pod_affinity=4),
    ),
    Scenario(
        "the first of a group that wants its own kind may go anywhere, the others follow",
        nodes=ZONES,
        jobs=make.gang("g", members=8, cpu=1, labels={"app": "g"}, spec=make.affinity("zone", app="g")),
        expect=lambda made: _on(made, {"n1"}),
    ),
    Scenario(
        "a pod on a node that is gone is no pod to be near to",
        nodes=ZONES,
        jobs=[
            make.pod("lost", cpu=1, node="gone", labels={"app": "g"}),
            make.pod("p", cpu=1, labels={"app": "g"}, spec=make.affinity("zone", app="g")),
        ],
        expect=nothing_waits,
    ),
    Scenario(
        "a leaving pod's anti-affinity still counts",
        nodes=[make.node("n1", cpu=8)],
        jobs=[
            make.pod("there", cpu=1, node="n1", leaving=True, spec=make.anti_affinity(app="web")),
            make.pod("p", cpu=1, labels={"app": "web"}),
        ],
        expect=waits("p", "PredicateFailed"),
    ),
    Scenario(
        "selectors mean the pod's own namespace",
        nodes=[make.node("n1", cpu=8)],
        jobs=[
            make.pod("there", "other", cpu=1, node="n1", labels={"app": "web"}),
            make.pod("p", cpu=1, spec=make.anti_affinity(app="web")),
        ],
        expect=placed(p="n1"),
    ),
    Scenario(
        "hard spread: the zones differ by at most the skew",
        nodes=[
            make.node("a1", cpu=8, labels={"zone": "a"}),
            make.node("b1", cpu=2, labels={"zone": "b"}),
            make.node("x", cpu=8),
        ],
        jobs=make.gang("g", members=8, minimum=0, cpu=1, labels={"app": "g"}, spec=make.spread("zone", app="g")),
        expect=[
            lambda made: _counts(made, {"a1": 3, "b1": 2}),
            waits("g", "InsufficientResources", topology_spread=2, insufficient_cpu=1),
        ],
    ),
    Scenario(
        "a hard spread of two",
        nodes=[make.node("a1", cpu=8, labels={"zone": "a"}), make.node("b1", cpu=1, labels={"zone": "b"})],
        jobs=make.gang(
            "g", members=8, minimum=0, cpu=1, labels={"app": "g"}, spec=make.spread("zone", skew=2, app="g")
        ),
        expect=lambda made: _counts(made, {"a1": 3, "b1": 1}),
    ),
    Scenario(
        "running pods count in a spread",
        nodes=[make.node("a1", cpu=8, labels={"zone": "a"}), make.node("b1", cpu=8, labels={"zone": "b"})],
        jobs=[
            make.pod("r", cpu=1, node="a1", labels={"app": "g"}),
            make.pod("p", cpu=1, labels={"app": "g"}, spec=make.spread("zone", app="g")),
        ],
        expect=placed(p="b1"),
    ),
    Scenario(
        "soft spread keeps no pod waiting",
        nodes=[make.node("a1", cpu=2, labels={"zone": "a"}), make.node("b1", cpu=1, labels={"zone": "b"})],
        jobs=make.gang("g", members=3, cpu=1, labels={"app": "g"}, spec=make.spread("zone", hard=False, app="g")),
        expect=nothing_waits,
    ),
)


@scenarios(*SCENARIOS)
def test_predicates(scenario):
    scenario.play()


def test_whose_namespaces_a_selector_means():
    term = {
        "topologyKey": make.HOST,
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchLabels": {"team": "blue"}},
        "namespaces": ["named"],
    }
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    state = state_of(
        [make.node("n1", cpu=4), make.node("n2", cpu=4), make.node("n3", cpu=2)],
        make.namespace("blue", team="blue"),
        make.pod("a", "blue", cpu=1, node="n1", labels={"app": "web"}),
        make.pod("b", "named", cpu=1, node="n2", labels={"app": "web"}),
        make.pod("p", cpu=1, spec=spec),
    )
    assert bound(decided(state)) == {"p": "n3"}
    state.upsert([make.namespace("blue", team="red")])
    assert bound(decided(state)) == {"p": "n1"}


def test_match_label_keys_narrow_a_selector_to_the_pods_own_revision():
    constraint = {**make.spread("zone", app="g")["topologySpreadConstraints"][0], "matchLabelKeys": ["rev"]}
    nodes = [make.node("a1", cpu=8, labels={"zone": "a"}), make.node("b1", cpu=4, labels={"zone": "b"})]
    old = [make.pod(f"old{i}", cpu=1, node="b1", labels={"app": "g", "rev": "1"}) for i in range(2)]
    new = make.gang(
        "g", members=2, cpu=1, labels={"app": "g", "rev": "2"}, spec={"topologySpreadConstraints": [constraint]}
    )
    assert sorted(bound(plan(nodes, old, new)).values()) == ["a1", "b1"]


class TestVolumes:
    """A bound claim ties a pod to its volume's nodes; an unbound one to the topologies of its class."""

    NODES = (make.node("n1", cpu=8, labels={"zone": "a"}), make.node("n2", cpu=4, labels={"zone": "b"}))

    def pod(self, claim="c"):
        return make.pod("p", cpu=1, spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]})

    def claim(self, **spec):
        return make.made("PersistentVolumeClaim", "c", "default", spec=spec)

    def volume(self, zone):
        required = {"nodeSelectorTerms": [{"matchExpressions": [expression("zone", "In", zone)]}]}
        return make.made("PersistentVolume", "v", spec={"nodeAffinity": {"required": required}})

    def storage(self, mode, *zones):
        topologies = [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}] if zones else []
        return make.made("StorageClass", "s", provisioner="x", volumeBindingMode=mode, allowedTopologies=topologies)

    def test_a_bound_claim(self):
        assert bound(plan(self.NODES, self.claim(volumeName="v"), self.volume("b"), self.pod())) == {"p": "n2"}

    def test_a_bound_claim_where_nothing_fits(self):
        made = plan(self.NODES, self.claim(volumeName="v"), self.volume("z"), self.pod())
        assert waiting(made)["p"].nodes == {"node(s) didn't match PersistentVolume's node affinity": 2}

    def test_a_claim_that_waits_for_its_first_consumer(self):
        storage = self.storage("WaitForFirstConsumer", "b")
        assert bound(plan(self.NODES, self.claim(storageClassName="s"), storage, self.pod())) == {"p": "n2"}

    def test_a_claim_that_waits_for_its_first_consumer_anywhere(self):
        storage = self.storage("WaitForFirstConsumer")
        assert bound(plan(self.NODES, self.claim(storageClassName="s"), storage, self.pod())) == {"p": "n1"}

    def test_a_claim_that_is_to_be_bound_first(self):
        made = plan(self.NODES, self.claim(storageClassName="s"), self.storage("Immediate"), self.pod())
        assert waiting(made)["p"].message == "0/2 nodes fit: 2 pod has unbound immediate PersistentVolumeClaims"

    def test_a_volume_that_is_not_there(self):
        made = plan(self.NODES, self.claim(volumeName="v"), self.pod())
        assert (
            "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)" in waiting(made)["p"].message
        )

    def test_news_of_a_claim_are_heard_in_the_next_cycle(self):
        state = state_of(self.NODES, self.pod())
        assert 'persistentvolumeclaim "c" not found' in waiting(decided(state))["p"].message
        state.upsert([self.volume("b"), self.claim(volumeName="v")])
        assert bound(decided(state)) == {"p": "n2"}


def test_a_zone_rule_that_comes_later_is_minded_by_columns_kept_from_before():
    """Pods that no pod repelled so far are kept off a whole zone by a newcomer's rule."""
    web = {"app": "web"}
    state = state_of(
        [make.node(f"n{i}", cpu=8, labels={"zone": "a"}) for i in range(5)],
        make.queue("q", state="Closed"),
        make.pod("near", queue="q", cpu=1, node="n4", spec=make.affinity(required=False, **web)),
        make.pod("p", queue="q", cpu=1, labels=web),
    )
    assert waiting(decided(state))["p"].reason == "QueueClosed"
    state.upsert([make.queue("q"), make.pod("owner", cpu=1, spec=make.anti_affinity("zone", **web))])
    made = decided(state)
    assert bound(made) == {"owner": "n0"}
    assert waiting(made)["p"].nodes == {"anti-affinity of pods already there": 5}


def _one_per_zone(made):
    zones = {"n1": "a", "n2": "b", "n3": "b"}
    nodes = list(bound(made).values())
    assert sorted(zones.get(node, "none") for node in nodes) == ["a", "b"] + ["none"] * (len(nodes) - 2)


def _on(made, nodes):
    assert set(bound(made).values()) == nodes


def _counts(made, expected):
    nodes = list(bound(made).values())
    assert {node: nodes.count(node) for node in nodes} == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, set()),
        ({"matchLabelKeys": ["rev"]}, {"other-rev"}),
        ({"mismatchLabelKeys": ["rev"]}, {"same-rev"}),
        ({"matchLabelKeys": ["no-such-label"]}, set()),
    ],
    ids=["all of the app", "of its own revision", "of other revisions", "a key that it does not have"],
)
def test_affinity_terms_narrowed_by_the_pods_own_labels(keys: dict[str, Any], expected: set[str]) -> None:
    """A pod that keeps off its app, on the only node, where one pod of the app is: which of them let it in?"""
    spec = make.anti_affinity(app="web")
    terms = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms[0].update(keys)
    newcomer = make.pod("new", cpu=1, labels={"app": "web", "rev": "2"}, spec=spec)
    there = {
        "same-rev": make.pod("same-rev", node="n1", cpu=1, labels={"app": "web", "rev": "2"}),
        "other-rev": make.pod("other-rev", node="n1", cpu=1, labels={"app": "web", "rev": "1"}),
    }
    let_in = {name for name, pod in there.items() if bound(plan(make.node("n1", cpu=4), pod, newcomer))}
    assert let_in == expected


@pytest.mark.parametrize(
    ("policies", "selector", "taints", "fits"),
    [
        ({}, {"disk": "ssd"}, (), True),
        ({"nodeAffinityPolicy": "Honor"}, {"disk": "ssd"}, (), True),
        ({"nodeAffinityPolicy": "Ignore"}, {"disk": "ssd"}, (), False),
        ({}, {}, ("k=v:NoSchedule",), False),
        ({"nodeTaintsPolicy": "Ignore"}, {}, ("k=v:NoSchedule",), False),
        ({"nodeTaintsPolicy": "Honor"}, {}, ("k=v:NoSchedule",), True),
        ({"nodeTaintsPolicy": "Honor"}, {}, ("k=v:PreferNoSchedule",), False),
    ],
)
def test_which_nodes_count_in_a_spread(
    policies: dict[str, Any], selector: dict[str, str], taints: tuple[str, ...], fits: bool
) -> None:
    """Zone b is empty, and full for this pod: if it counts, a second pod in zone a is one too many."""
    nodes = [
        make.node("a1", cpu=4, labels={"zone": "a", "disk": "ssd"}),
        make.node("b1", cpu=0, labels={"zone": "b"}, taints=taints),
    ]
    constraint = {**make.spread("zone", app="web")["topologySpreadConstraints"][0], **policies}
    spec = {"topologySpreadConstraints": [constraint], "nodeSelector": selector}
    there = make.pod("there", node="a1", cpu=1, labels={"app": "web"})
    found = plan(nodes, there, make.pod("new", cpu=1, labels={"app": "web"}, spec=spec))
    assert bound(found) == ({"new": "a1"} if fits else {})
