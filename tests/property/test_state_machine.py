"""Any story of events leaves a state that equals a recomputation, and from which a cycle decides as from a new one.

Objects of all kinds come, change and go in any order: nodes under running pods, groups before and after their pods,
queues with jobs in them. Bindings are assumed, confirmed and forgotten in between.
"""

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.api.scheduling import NetworkTopology, PodGroup
from fairway.drive.change import Bind
from fairway.drive.planned_changes import pod_key
from fairway.drive.store import ObjectStore
from fairway.scheduler.plan import Binding, ExplainedPlan
from fairway.state import invariants
from fairway.state.cluster import ClusterState, Deleted
from support import clusters, engine
from support import objects as make
from support.contention import reservation
from support.effort import examples

NODES = ("n0", "n1", "n2", "n3")
HELD = {"fairway.dev/hold": "true"}
QUEUES = ("q0", "q1", "q2")
GROUPS = ("g0", "g1", "p0")
PODS = ("p0", "p1", "p2", "p3", "p4")
NAMESPACES = ("a", "b")
CLAIMS = ("c0", "c1")
ACTIONS = (
    "enqueue, allocate, backfill",
    "enqueue, reserve, allocate, reclaim, backfill",
    "enqueue, allocate, preempt, reclaim, backfill",
)

pods = st.sampled_from(PODS)
namespaces = st.sampled_from(NAMESPACES)
nodes = st.sampled_from(NODES)
uids = st.sampled_from(("u1", "u1", "u2"))


def of_uid(thing: Any, uid: str) -> Any:
    return replace(thing, metadata=replace(thing.metadata, uid=uid))


class StateHistory(RuleBasedStateMachine):
    """`objects` is what an API server would hold. What happens there reaches the state through the store of the drive
    layer, with the bindings on top that are under way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.objects: dict[kinds.ObjectKey, ApiObject] = {}
        self.store = ObjectStore()

    @initialize(
        node=clusters.node("n0"),
        kind=clusters.templates(),
        policy=clusters.policies(ACTIONS),
        narrow=clusters.sometimes,
    )
    def begin(self, node: ApiObject, kind: dict[str, Any], policy: Policy, narrow: bool) -> None:
        """With `narrow` the scheduler has a name of its own, and most pods are another scheduler's."""
        self.policy = policy
        self.kinds = [kind]
        self.names = ["fairway"] if narrow else None
        self.state = ClusterState(self.names)
        self.upsert(node)

    def upsert(self, thing: ApiObject) -> None:
        self.objects[kinds.key(thing)] = thing
        self.store.seen(thing)
        self.tell()

    def delete(self, thing: ApiObject) -> None:
        known = self.objects.pop(kinds.key(thing), None)
        if known is None:
            self.state.apply(Deleted(thing))  # news of an object that was never seen
        else:
            self.store.gone(known)
            self.tell()

    def tell(self) -> None:
        for event in self.store.drain().events:
            self.state.apply(event)

    # -- objects ----------------------------------------------------------------------------------------------

    @rule(node=nodes.flatmap(clusters.node))
    def upsert_node(self, node: ApiObject) -> None:
        self.upsert(node)

    @rule(name=nodes)
    def delete_node(self, name: str) -> None:
        self.delete(make.node(name))

    @rule(queue=st.sampled_from(QUEUES).flatmap(lambda name: clusters.queue(name, [q for q in QUEUES if q < name])))
    def upsert_queue(self, queue: ApiObject) -> None:
        self.upsert(queue)

    @rule(name=st.sampled_from(QUEUES))
    def delete_queue(self, name: str) -> None:
        self.delete(make.queue(name))

    @rule(
        name=st.sampled_from(GROUPS),
        namespace=namespaces,
        minimum=st.integers(0, 3),
        queue=st.sampled_from((*QUEUES, "default", "nobody", "")),
        created=st.none() | st.integers(0, 2),
        phase=st.sampled_from(("", "Pending", "Inqueue", "Completed")),
        priority_class=st.sampled_from(("", "high", "unknown")),
        roles=st.sampled_from(({}, {}, {"driver": 1})),
        annotations=st.sampled_from(
            ({}, {}, HELD, *({f"kueue.x-k8s.io/podset-{how}-topology": "zone"} for how in ("required", "preferred")))
        ),
        network=st.sampled_from((None, None, None, "hard", "soft")),
        uid=uids,
    )
    def upsert_group(self, name: str, namespace: str, uid: str, network: str | None, **fields: Any) -> None:
        group = make.group(name, namespace, **fields)
        assert isinstance(group, PodGroup)
        topology = None if network is None else NetworkTopology(mode="hard" if network == "hard" else "soft")
        spec = msgspec.structs.replace(group.spec, network_topology=topology)
        self.upsert(of_uid(msgspec.structs.replace(group, spec=spec), uid))

    @rule(
        name=st.sampled_from(sorted({*PODS, *GROUPS})),
        kind=st.sampled_from(("Pod", "PodGroup")),
        namespace=namespaces,
        uid=uids,
        places=st.lists(
            st.tuples(pods, nodes, st.sampled_from(("reserved", "allocated"))), max_size=2, unique_by=lambda row: row[0]
        ),
    )
    def upsert_reservation(
        self, name: str, kind: str, namespace: str, uid: str, places: list[tuple[str, str, str]]
    ) -> None:
        owner = make.pod(name, namespace) if kind == "Pod" else make.group(name, namespace)
        self.upsert(reservation(owner, *places, since=0, uid=uid))

    @rule(
        name=st.sampled_from(sorted({*PODS, *GROUPS})), kind=st.sampled_from(("Pod", "PodGroup")), namespace=namespaces
    )
    def delete_reservation(self, name: str, kind: str, namespace: str) -> None:
        owner = make.pod(name, namespace) if kind == "Pod" else make.group(name, namespace)
        self.delete(reservation(owner))

    @rule(name=st.sampled_from(GROUPS), namespace=namespaces)
    def delete_group(self, name: str, namespace: str) -> None:
        self.delete(make.group(name, namespace))

    @rule(kind=clusters.templates())
    def think_of_another_kind_of_pod(self, kind: dict[str, Any]) -> None:
        self.kinds.append(kind)

    @rule(
        name=pods,
        namespace=namespaces,
        kind=st.integers(0, 9),
        group=st.sampled_from(("", *GROUPS)),
        owner=st.sampled_from(("", "", "Job/g0", "JobSet/g0")),
        gates=st.sampled_from(((), (), (), ("hold",))),
        annotations=st.sampled_from(({}, {}, {}, HELD)),
        queue=st.sampled_from(("", *QUEUES)),
        claim=st.sampled_from((None, None, None, *CLAIMS)),
        more=st.fixed_dictionaries({}, optional={"created": st.integers(0, 2), "nominated": nodes}),
        ours=st.booleans(),
        uid=uids,
    )
    def upsert_waiting_pod(
        self,
        name: str,
        namespace: str,
        kind: int,
        claim: str | None,
        ours: bool,
        uid: str,
        more: dict[str, Any],
        **fields: Any,
    ) -> None:
        template = self.kind(kind, ours)
        if claim is not None:
            template["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        self.upsert(of_uid(make.pod(name, namespace, **template, **fields, **more), uid))

    @rule(
        name=pods,
        namespace=namespaces,
        kind=st.integers(0, 9),
        node=st.sampled_from((*NODES, "unknown")),
        phase=st.sampled_from(("Running", "Running", "Pending", "Succeeded", "Failed", "Unknown")),
        leaving=clusters.seldom,
        group=st.sampled_from(("", *GROUPS)),
        owner=st.sampled_from(("", "", "Job/g0", "JobSet/g0")),
        claim=st.sampled_from((None, None, *CLAIMS)),
        ours=st.booleans(),
    )
    def upsert_placed_pod(
        self, name: str, namespace: str, kind: int, node: str, ours: bool, claim: str | None, **fields: Any
    ) -> None:
        template = self.kind(kind, ours)
        if claim is not None:
            template["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        self.upsert(make.pod(name, namespace, **template, node=node, **fields))

    def kind(self, index: int, ours: bool) -> dict[str, Any]:
        template = dict(self.kinds[index % len(self.kinds)])
        template["spec"] = {**template["spec"], "schedulerName": "fairway" if ours else "default-scheduler"}
        return template

    @rule(name=pods, namespace=namespaces)
    def delete_pod(self, name: str, namespace: str) -> None:
        self.delete(make.pod(name, namespace))

    @rule(namespace=namespaces, weight=st.sampled_from((1, 2, "3", "none", -1)), name=st.sampled_from(("x", "y")))
    def upsert_quota(self, namespace: str, weight: object, name: str) -> None:
        self.upsert(make.quota(namespace, weight, name))

    @rule(namespace=namespaces, name=st.sampled_from(("x", "y")))
    def delete_quota(self, namespace: str, name: str) -> None:
        self.delete(make.quota(namespace, 1, name))

    @rule(name=namespaces, team=st.sampled_from(("red", "blue")), queue=st.sampled_from(("", *QUEUES)))
    def upsert_namespace(self, name: str, team: str, queue: str) -> None:
        self.upsert(make.namespace(name, team=team, **({"fairway.dev/queue": queue} if queue else {})))

    @rule(name=namespaces)
    def delete_namespace(self, name: str) -> None:
        self.delete(make.namespace(name))

    @rule(name=st.sampled_from(("high", "usual")), value=st.integers(-1, 2))
    def upsert_priority_class(self, name: str, value: int) -> None:
        self.upsert(make.priority_class(name, value, default=name == "usual"))

    @rule(name=st.sampled_from(("high", "usual")))
    def delete_priority_class(self, name: str) -> None:
        self.delete(make.priority_class(name, 0))

    @rule(
        name=st.sampled_from(CLAIMS),
        namespace=namespaces,
        spec=st.sampled_from(
            (
                {},
                {"volumeName": "v", "accessModes": ["ReadWriteOnce"]},
                {"storageClassName": "late", "accessModes": ["ReadWriteOnce"]},
                {"volumeName": "v", "accessModes": ["ReadWriteOncePod"]},
                {"storageClassName": "late", "accessModes": ["ReadWriteOncePod"]},
            )
        ),
    )
    def upsert_claim(self, name: str, namespace: str, spec: dict[str, Any]) -> None:
        self.upsert(make.made("PersistentVolumeClaim", name, namespace, spec=spec))

    @rule(name=st.sampled_from(CLAIMS), namespace=namespaces)
    def delete_claim(self, name: str, namespace: str) -> None:
        self.delete(make.made("PersistentVolumeClaim", name, namespace, spec={}))

    @rule(zone=st.sampled_from(("x", "y")))
    def upsert_storage(self, zone: str) -> None:
        terms = [{"matchExpressions": [make.expression("zone", "In", zone)]}]
        required = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, "csi": {"driver": "p"}}
        self.upsert(make.made("PersistentVolume", "v", spec=required))
        self.upsert(make.made("StorageClass", "late", provisioner="p", volumeBindingMode="WaitForFirstConsumer"))

    @rule(name=nodes, count=st.none() | st.integers(0, 2))
    def upsert_csi_node(self, name: str, count: int | None) -> None:
        limit = {} if count is None else {"allocatable": {"count": count}}
        self.upsert(make.made("CSINode", name, spec={"drivers": [{"name": "p", **limit}]}))

    @rule(name=nodes)
    def delete_csi_node(self, name: str) -> None:
        self.delete(make.made("CSINode", name))

    @rule(name=st.sampled_from(("h0", "h1")), tier=st.integers(1, 2), members=st.lists(nodes, max_size=3))
    def upsert_hyper_node(self, name: str, tier: int, members: list[str]) -> None:
        chosen = [{"type": "Node", "selector": {"exactMatch": {"name": member}}} for member in members]
        self.upsert(make.made("HyperNode", name, spec={"tier": tier, "members": chosen}))

    @rule(name=st.sampled_from(("h0", "h1")))
    def delete_hyper_node(self, name: str) -> None:
        self.delete(make.made("HyperNode", name))

    # -- bindings ---------------------------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        return sorted(key for key, task in self.state.tasks.items() if task.state.name == "PENDING")

    def bind(self, pod: str, node: str) -> None:
        known = self.objects[pod_key(pod)]
        self.store.sent([Bind(pod_key(pod), known.metadata.uid, Binding(pod, node), make.NOW)])
        self.tell()

    @precondition(lambda self: self.waiting())
    @rule(index=st.integers(0, 9), node=nodes)
    def begin_binding(self, index: int, node: str) -> None:
        waiting = self.waiting()
        self.bind(waiting[index % len(waiting)], node)

    @precondition(lambda self: any(self.store.in_flight()))
    @rule(index=st.integers(0, 9), accepted=st.booleans())
    def answer(self, index: int, accepted: bool) -> None:
        """Of what is under way one is made, or refused."""
        under_way = sorted(self.store.in_flight(), key=lambda change: change.key)
        change = under_way[index % len(under_way)]
        made = change.onto(self.objects.get(change.key)) if accepted else None
        if made is None:
            self.store.refused(change)
            self.tell()
        else:
            self.upsert(made)

    # -- what must hold ---------------------------------------------------------------------------------------

    @invariant()
    def everything_kept_is_true(self) -> None:
        invariants.check(self.state)

    @rule()
    def decide_as_from_a_new_state(self) -> None:
        fresh = engine.state_of(list(self.store.objects()), scheduler_names=self.names)
        assert text(engine.decided(self.state, self.policy)) == text(engine.decided(fresh, self.policy))

    def teardown(self) -> None:
        if hasattr(self, "policy"):
            self.decide_as_from_a_new_state()

    @rule()
    def carry_a_plan_out(self) -> None:
        for binding in engine.decided(self.state, self.policy).bindings[:3]:
            self.bind(binding.pod, binding.node)


def text(plan: ExplainedPlan) -> str:
    return json.dumps(plan.document(), indent=1)


TestStory = StateHistory.TestCase
TestStory.settings = settings(
    max_examples=examples(40),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
