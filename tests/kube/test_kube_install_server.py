"""What `fairway install` prints, on a real server: good objects are taken, each bad one is refused in plain words."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fairway.kube.install.admission import MAX_CLASSES
from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from kube.controlplane.plane import SCHEDULER, ControlPlane
from kube.servers import Refused, apply, ask, collection, create, eventually, namespace, pod, remove

OPTIONS = InstallOptions(default_for_label="fairway.dev/default=true")
CLASS = "resourceclass.fairway.dev/"
RECORD = "scheduler.alpha.kubernetes.io/resClass_gpu_d0"


@pytest.fixture(name="cluster", scope="module")
def an_installed_cluster(plane: ControlPlane) -> ControlPlane:
    apply(plane, objects(OPTIONS))
    namespace(plane, "plain")

    def in_force() -> bool:
        """The policies take a moment until they are compiled: try what each forbids."""
        wrong = pod("probe", "plain", annotations={RECORD: "1"})
        try:
            create(plane, wrong)
        except Refused:
            return True
        remove(plane, wrong)
        return False

    eventually(in_force)
    return plane


def resource_class(name: str, **spec: Any) -> dict[str, Any]:
    selector = [{"matchExpressions": [{"key": "memory", "operator": "Exists"}]}]
    head = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ResourceClass", "metadata": {"name": name}}
    return {**head, "spec": {"resourceSelector": selector, **spec}}


def queue(name: str, **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    return {**head, "spec": spec}


def group(name: str, space: str = "plain", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": space}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def reservation(name: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "plain"}
    reference = {"kind": "PodGroup", "name": name, "uid": "u1"}
    head = {"apiVersion": "fairway.dev/v1alpha1", "kind": "Reservation", "metadata": meta}
    return {**head, "spec": {"jobRef": reference, **spec}}


def test_everything_applies_twice_and_the_default_queue_is_there(cluster: ControlPlane) -> None:
    apply(cluster, objects(OPTIONS))
    assert ask(cluster, "GET", "/apis/scheduling.volcano.sh/v1beta1/queues/default")["spec"]["weight"] == 1
    crds = ask(cluster, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    for crd in crds:
        conditions = {one["type"]: one["status"] for one in crd["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert conditions.get("NonStructuralSchema", "False") == "False"


@pytest.mark.parametrize(
    "thing",
    [
        queue("good", weight=3, capability={"cpu": 4, "memory": "8Gi"}, deserved={"cpu": "1500m"}, parent="default"),
        queue("good", guarantee={"resource": {"cpu": "1"}}, capability={"cpu": "1"}, reclaimable=False, priority=5),
        queue("good", affinity={"nodeGroupAffinity": {}}, dequeueStrategy="fifo", type="x", extendClusters=[]),
        queue("good", allowedNamespaces={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}),
        queue("good"),
        group("good", minMember=3, minResources={"cpu": 2}, queue="default", minTaskMember={"w": 2}),
        group("good", subGroupPolicy=[{"name": "a"}], networkTopology={"mode": "soft", "highestTierName": "rack"}),
        group("good"),
        resource_class("good", strategy=["pack"], includes=[{"class": "other", "count": 2}]),
        resource_class("good", allowedNamespaces={"matchLabels": {"a": "b"}}),
    ],
    ids=str,
)
def test_good_objects_are_taken(cluster: ControlPlane, thing: dict[str, Any]) -> None:
    create(cluster, thing)
    remove(cluster, thing)


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (queue("bad", weight=0), "spec.weight"),
        (queue("bad", weight="many"), "spec.weight"),
        (queue("bad", capability={"cpu": "lots"}), "spec.capability.cpu"),
        (queue("bad", capability={"cpu": "-1"}), "an amount is negative"),
        (queue("bad", capability={"cpu": "2"}, deserved={"cpu": "3"}), "deserved is above capability"),
        (queue("bad", capability={"cpu": 2}, guarantee={"resource": {"cpu": "2001m"}}), "guarantee.resource is above"),
        (queue("bad", parent="bad"), "spec.parent is the queue itself"),
        (queue("bad", parent="Not A Name"), "spec.parent"),
        (queue("bad", state="Ajar"), "spec.state"),
        (queue("bad", allowedNamespaces={"matchExpressions": [{"key": "a", "operator": "In"}]}), "values is empty"),
        (group("bad", minMember=-1), "spec.minMember"),
        (group("bad", minResources={"cpu": "-2"}), "an amount is negative"),
        (group("bad", networkTopology={"mode": "stiff"}), "spec.networkTopology.mode"),
        (
            resource_class("bad", resourceSelector=[{"matchExpressions": [{"key": "a", "operator": "Like"}]}]),
            "operator",
        ),
        (
            resource_class("bad", resourceSelector=[{"matchExpressions": [{"key": "a", "operator": "Gt"}]}]),
            "exactly one for Eq, Gt",
        ),
        (
            resource_class(
                "bad", resourceSelector=[{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}]
            ),
            "none for Exists",
        ),
        (resource_class("bad", includes=[{"class": "bad"}]), "names the class itself"),
        (resource_class("bad", includes=[{"class": "x"}, {"class": "x"}]), "spec.includes[1]"),
        (resource_class("bad", includes=[{"class": "x", "count": 0}]), "spec.includes[0].count"),
        (resource_class("bad", strategy=["luck"]), "spec.strategy[0]"),
        ({**resource_class("bad"), "spec": None}, "spec"),
    ],
    ids=str,
)
def test_bad_objects_are_refused_in_plain_words(cluster: ControlPlane, thing: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refusal:
        create(cluster, thing)
    assert refusal.value.status == 422
    assert said in refusal.value.message


def test_a_class_cannot_be_changed_but_its_status_can(cluster: ControlPlane) -> None:
    thing = resource_class("fixed")
    made = create(cluster, thing)
    path = f"{collection(thing)}/fixed"
    with pytest.raises(Refused, match="a class is not changed"):
        ask(cluster, "PUT", path, {**made, "spec": resource_class("x", strategy=["pack"])["spec"]})
    status = {"status": {"allocatable": 2.5, "requested": 1}}
    found = ask(cluster, "PATCH", f"{path}/status", status, kind="application/merge-patch+json", user=SCHEDULER)
    assert found["status"] == {"allocatable": 2.5, "requested": 1}
    labelled = {"metadata": {"labels": {"a": "b"}}}
    assert ask(cluster, "PATCH", path, labelled, kind="application/merge-patch+json")["metadata"]["labels"] == {
        "a": "b"
    }
    remove(cluster, thing)


# -- reservations --------------------------------------------------------------------------------------------------


def test_only_fairway_writes_reservations_and_an_operator_deletes_them(cluster: ControlPlane) -> None:
    thing = reservation("job", places=[{"pod": "p", "node": "n", "state": "reserved"}])
    with pytest.raises(Refused, match="only Fairway writes reservations"):
        create(cluster, thing)
    made = create(cluster, thing, user=SCHEDULER)
    path = f"{collection(thing)}/job"
    changed = deepcopy(made)
    changed["spec"]["places"] = []
    with pytest.raises(Refused, match="only Fairway writes"):
        ask(cluster, "PUT", path, changed)
    labelled = {"metadata": {"labels": {"a": "b"}}}
    ask(cluster, "PATCH", path, labelled, kind="application/merge-patch+json")  # as the garbage collector might
    ask(cluster, "DELETE", path)


def test_only_fairway_writes_eviction_records_and_an_operator_deletes_them(cluster: ControlPlane) -> None:
    """A tenant that could write one would protect its jobs."""
    thing = {**reservation("job"), "kind": "EvictionRecord", "status": {"stops": 20}}
    with pytest.raises(Refused, match="only Fairway writes eviction records"):
        create(cluster, thing)
    made = create(cluster, thing, user=SCHEDULER)
    path = f"{collection(thing)}/job"
    changed = deepcopy(made)
    changed["status"]["stops"] = 30
    with pytest.raises(Refused, match="only Fairway writes"):
        ask(cluster, "PUT", path, changed)
    ask(cluster, "DELETE", path)
    bad = {**thing, "spec": {"jobRef": {"kind": "PodGroup", "name": "job"}}}
    with pytest.raises(Refused, match=r"spec\.jobRef\.uid"):
        create(cluster, bad, user=SCHEDULER)


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (reservation("bad", jobRef={"kind": "PodGroup", "name": "bad"}), "spec.jobRef.uid"),
        (reservation("bad", jobRef={"kind": "Thing", "name": "bad", "uid": "u"}), "spec.jobRef.kind"),
        (reservation("bad", jobRef={"kind": "Pod", "name": "bad", "uid": "u"}), "named pod-"),
        (reservation("bad", places=[{"pod": "p", "node": "n", "state": "kept"}]), "spec.places[0].state"),
        (reservation("bad", places=[{"pod": "p", "node": "n", "state": "reserved"}] * 2), "spec.places[1]"),
        (reservation("bad", plannedStart="tomorrow"), "spec.plannedStart"),
    ],
    ids=str,
)
def test_bad_reservations_are_refused(cluster: ControlPlane, thing: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refusal:
        create(cluster, thing, user=SCHEDULER)
    assert said in refusal.value.message


# -- who may use a class -------------------------------------------------------------------------------------------


def classes(*names: str) -> dict[str, str]:
    return {f"{CLASS}{name}": "1" for name in names}


@pytest.fixture(name="teams", scope="module")
def a_cluster_with_teams(cluster: ControlPlane) -> ControlPlane:
    """alice may use a to g, and so may the service account `worker`; bob may create pods and use nothing."""
    namespace(cluster, "team")
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "update", "patch", "delete", "get"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get"]},
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims", "resourceclaimtemplates"],
            "verbs": ["create"],
        },
    ]
    use = {"apiGroups": ["fairway.dev"], "resources": ["resourceclasses"], "verbs": ["use"]}
    version = "rbac.authorization.k8s.io/v1"
    user = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io"}
    account = {"kind": "ServiceAccount", "name": "worker", "namespace": "team"}
    things = []
    for name, granted, subjects in (
        ("podders", rules, [{**user, "name": "alice"}, {**user, "name": "bob"}]),
        ("users", [{**use, "resourceNames": list("abcdefg")}], [{**user, "name": "alice"}, account]),
    ):
        things += [
            {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": f"test-{name}"}, "rules": granted},
            {
                "apiVersion": version,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"test-{name}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"test-{name}"},
                "subjects": subjects,
            },
        ]
    apply(cluster, things)

    def known() -> bool:
        create(cluster, pod("probe", "team", limits=classes("a")), user="alice")
        return True

    eventually(known)
    remove(cluster, pod("probe", "team"))
    return cluster


def test_who_may_use_classes_gets_them(teams: ControlPlane) -> None:
    thing = pod("p1", "team", limits=classes(*"abcdef"))
    create(teams, thing, user="alice")
    remove(teams, thing)


def test_the_service_account_of_the_pod_may_be_the_one_that_is_allowed(teams: ControlPlane) -> None:
    thing = pod("p2", "team", limits=classes("a"), spec={"serviceAccountName": "worker"})
    create(teams, thing, user="bob")
    remove(teams, thing)


def test_a_forbidden_class_is_named(teams: ControlPlane) -> None:
    with pytest.raises(Refused) as refusal:
        create(teams, pod("p3", "team", limits=classes(*"abcdef", "z")), user="alice")
    said = "neither alice nor the service account default may use the resource class z"
    assert said in refusal.value.message
    with pytest.raises(Refused, match="neither bob nor the service account default may use the resource class a"):
        create(teams, pod("p3", "team", limits=classes("a")), user="bob")


def test_init_containers_count_and_a_class_that_is_named_twice_counts_once(teams: ControlPlane) -> None:
    inner = {"name": "init", "image": "none", "resources": {"limits": classes("z"), "requests": classes("z")}}
    with pytest.raises(Refused, match="resource class z"):
        create(teams, pod("p4", "team", limits=classes("a"), spec={"initContainers": [inner]}), user="alice")
    same = {"name": "init", "image": "none", "resources": {"limits": classes(*"abcde"), "requests": classes(*"abcde")}}
    thing = pod("p5", "team", limits=classes(*"abcde"), spec={"initContainers": [same]})
    create(teams, thing, user="alice")
    remove(teams, thing)


def test_claims_and_templates_that_name_a_class_are_asked_about(teams: ControlPlane) -> None:
    """A DeviceClass of no ResourceClass is for all; Kubernetes makes the claims of templates."""
    for name in ("a", "z"):
        spec = {"resourceSelector": [{"matchExpressions": [{"key": "Kind", "operator": "In", "values": ["gpu"]}]}]}
        create(
            teams,
            {"apiVersion": "fairway.dev/v1alpha1", "kind": "ResourceClass", "metadata": {"name": name}, "spec": spec},
        )
    meta, version = {"name": "c", "namespace": "team"}, "resource.k8s.io/v1"

    def claim(class_name: str, *, first: bool = False) -> dict[str, Any]:
        sub = {"name": "s", "deviceClassName": class_name}
        asked = {"firstAvailable": [sub]} if first else {"exactly": {"deviceClassName": class_name}}
        spec = {"devices": {"requests": [{"name": "r", **asked}]}}
        return {"apiVersion": version, "kind": "ResourceClaim", "metadata": meta, "spec": spec}

    def is_refused() -> bool:  # a policy with parameters takes a moment to know a class
        try:
            create(teams, claim("z"), user="alice")
        except Refused as refusal:
            return "alice may not use the resource class z" in refusal.message
        remove(teams, claim("z"))
        return False

    eventually(is_refused)
    for good in (claim("a"), claim("a", first=True), claim("some-device-class")):
        create(teams, good, user="alice")
        remove(teams, good)
    template = {"apiVersion": version, "kind": "ResourceClaimTemplate", "metadata": meta}
    for bad in (claim("z", first=True), {**template, "spec": {"spec": claim("z")["spec"]}}):
        with pytest.raises(Refused, match="resource class z"):
            create(teams, bad, user="alice")
    create(teams, claim("z"), user="system:serviceaccount:kube-system:resource-claim-controller")
    remove(teams, claim("z"))
    empty = {**claim("a"), "spec": {}}
    create(teams, empty, user="alice")
    remove(teams, empty)
    subs = [{"name": f"s{number}", "deviceClassName": f"{'long-name-' * 20}{number}"} for number in range(7)]
    subs.append({"name": "last", "deviceClassName": "z"})
    longest = {"devices": {"requests": [{"name": f"r{number}", "firstAvailable": subs} for number in range(32)]}}
    with pytest.raises(Refused, match="resource class z"):  # its expression must not cost more than it may
        create(teams, {**claim("a"), "spec": longest}, user="alice")


def test_too_many_classes_are_refused_also_for_an_administrator(teams: ControlPlane) -> None:
    names = [f"c{number}" for number in range(MAX_CLASSES + 1)]
    with pytest.raises(Refused, match="asks for 9 resource classes, expected at most 8"):
        create(teams, pod("p6", "team", limits=classes(*names)))
    thing = pod("p6", "team", limits=classes(*names[:-1]))
    create(teams, thing)
    remove(teams, thing)


def test_pods_without_classes_are_not_asked_about(teams: ControlPlane) -> None:
    thing = pod("p7", "team", limits={"cpu": "1"})
    create(teams, thing, user="bob")
    remove(teams, thing)


# -- queues --------------------------------------------------------------------------------------------------------


@pytest.fixture(name="shut", scope="module")
def a_cluster_with_a_queue_for_some(cluster: ControlPlane) -> ControlPlane:
    namespace(cluster, "inside", team="a")
    namespace(cluster, "outside", team="b")
    namespace(cluster, "sent", **{"fairway.dev/queue": "shut"})
    apply(cluster, [queue("shut", allowedNamespaces={"matchLabels": {"team": "a"}})])

    def known() -> bool:
        wrong = group("probe", "outside", queue="shut")
        try:
            create(cluster, wrong)
        except Refused:
            return True
        remove(cluster, wrong)
        return False

    eventually(known)
    return cluster


def test_a_queue_takes_groups_and_pods_of_its_namespaces_only(shut: ControlPlane) -> None:
    said = "namespace outside may not use queue shut"
    for thing in (
        group("g", "outside", queue="shut"),
        pod("p", "outside", labels={"fairway.dev/queue": "shut"}),
        pod("p", "outside", annotations={"scheduling.volcano.sh/queue-name": "shut"}),
        pod("p", "outside", labels={"kueue.x-k8s.io/queue-name": "shut"}),
    ):
        with pytest.raises(Refused, match=said):
            create(shut, thing)
        allowed = {**thing, "metadata": {**thing["metadata"], "namespace": "inside"}}
        create(shut, allowed)
        remove(shut, allowed)
    with pytest.raises(Refused, match="namespace sent may not use queue shut"):
        create(shut, pod("p", "sent"))
    for thing in (pod("p", "outside"), group("g", "outside", queue="default"), group("g", "outside")):
        create(shut, thing)
        remove(shut, thing)


def test_a_group_cannot_move_to_a_queue_that_is_not_for_it(shut: ControlPlane) -> None:
    made = create(shut, group("mover", "outside", queue="default"))
    with pytest.raises(Refused, match="may not use queue shut"):
        ask(shut, "PUT", f"{collection(made)}/mover", {**made, "spec": {"queue": "shut"}})
    remove(shut, made)


@pytest.mark.parametrize(
    ("operator", "values", "inside", "outside"),
    [
        ("In", ["a", "c"], True, False),
        ("NotIn", ["a"], False, True),
        ("Exists", [], True, True),
        ("DoesNotExist", [], False, False),
    ],
)
def test_expressions_mean_what_they_mean_elsewhere(
    shut: ControlPlane, operator: str, values: list[str], inside: bool, outside: bool
) -> None:
    name = f"by-{operator.lower()}"
    expression = {"key": "team", "operator": operator, **({"values": values} if values else {})}
    create(shut, queue(name, allowedNamespaces={"matchExpressions": [expression]}))
    spaces = {"inside": inside, "outside": outside, "plain": operator in ("NotIn", "DoesNotExist")}

    def as_expected() -> bool:
        return {space: _may(shut, group("g", space, queue=name)) for space in spaces} == spaces

    eventually(as_expected)
    remove(shut, queue(name))


def _may(plane: ControlPlane, thing: dict[str, Any]) -> bool:
    try:
        create(plane, thing)
    except Refused:
        return False
    remove(plane, thing)
    return True


# -- records and defaults ------------------------------------------------------------------------------------------


def test_the_record_of_devices_is_written_by_fairway_alone(cluster: ControlPlane) -> None:
    said = "only Fairway writes them"
    with pytest.raises(Refused, match=said):
        create(cluster, pod("forger", "plain", annotations={RECORD: "4"}))
    thing = pod("honest", "plain")
    create(cluster, thing)
    path = f"{collection(thing)}/honest"
    patch = {"metadata": {"annotations": {RECORD: "4"}}}
    with pytest.raises(Refused, match=said):
        ask(cluster, "PATCH", path, patch, kind="application/merge-patch+json")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "honest", "namespace": "plain", "annotations": {RECORD: "1"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    ask(cluster, "POST", f"{path}/binding", binding, user=SCHEDULER)
    assert ask(cluster, "GET", path)["metadata"]["annotations"][RECORD] == "1"
    changes: list[dict[str, str | None]] = [{RECORD: "2"}, {RECORD: None}]
    for change in changes:
        with pytest.raises(Refused, match=said):
            ask(cluster, "PATCH", path, {"metadata": {"annotations": change}}, kind="application/merge-patch+json")
    harmless = {"metadata": {"annotations": {"note": "x"}}}
    ask(cluster, "PATCH", path, harmless, kind="application/merge-patch+json")
    remove(cluster, thing)


def test_pods_of_labelled_namespaces_get_fairway(cluster: ControlPlane) -> None:
    namespace(cluster, "defaulted", **{"fairway.dev/default": "true"})

    def set_by_policy() -> bool:
        thing = pod("p", "defaulted", spec={"schedulerName": ""})
        made = create(cluster, thing)
        remove(cluster, thing)
        return bool(made["spec"]["schedulerName"] == "fairway")

    eventually(set_by_policy)
    for thing, expected in (
        (pod("p", "defaulted", spec={"schedulerName": "mine"}), "mine"),
        (pod("p", "plain", spec={"schedulerName": ""}), "default-scheduler"),
    ):
        assert create(cluster, thing)["spec"]["schedulerName"] == expected
        remove(cluster, thing)


DAEMON_SETS = "system:serviceaccount:kube-system:daemon-set-controller"
REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"
ALL_CONTROLLERS = "system:kube-controller-manager"


def placed_pod(name: str, scheduler: str = "fairway", owner: str = "") -> dict[str, Any]:
    """A pod that names its node."""
    thing = pod(name, "plain")
    thing["spec"] |= {"schedulerName": scheduler, "nodeName": "somewhere"}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u", "controller": True}
        thing["metadata"]["ownerReferences"] = [reference]
    return thing


@pytest.fixture(name="guarded", scope="module")
def a_cluster_in_which_users_create_pods(cluster: ControlPlane) -> ControlPlane:
    subjects = [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        for name in ("tenant", "system:node:somewhere", "system:node:elsewhere", ALL_CONTROLLERS)
    ]
    subjects += [
        {"kind": "ServiceAccount", "name": name.rpartition(":")[2], "namespace": "kube-system"}
        for name in (DAEMON_SETS, REPLICA_SETS)
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "creators"}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "creators", "namespace": "plain"}}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    binding = {**head, "kind": "RoleBinding", "roleRef": role, "subjects": subjects}
    apply(cluster, [{**head, "kind": "Role", "rules": rules}, binding])

    def in_force() -> bool:
        wrong = placed_pod("placed-probe")
        try:
            create(cluster, wrong)
        except Refused:
            return True
        remove(cluster, wrong)
        return False

    eventually(in_force)
    return cluster


@pytest.mark.parametrize(
    ("user", "owner"),
    [
        ("", ""),
        ("", "DaemonSet"),
        ("tenant", ""),
        ("tenant", "DaemonSet"),
        (REPLICA_SETS, "ReplicaSet"),
        (REPLICA_SETS, "DaemonSet"),
        (ALL_CONTROLLERS, "ReplicaSet"),
        (DAEMON_SETS, ""),
        ("system:node:elsewhere", ""),
    ],
)
def test_a_pod_that_names_its_node_is_refused(guarded: ControlPlane, user: str, owner: str) -> None:
    """Whoever creates it, and whatever it says of its owner: it would go past queues, shares and reservations."""
    with pytest.raises(Refused, match="bypasses the queues of scheduler fairway") as refused:
        create(guarded, placed_pod("jumps", owner=owner), user)
    assert refused.value.status == 403


@pytest.mark.parametrize(
    ("user", "owner", "scheduler"),
    [
        (DAEMON_SETS, "DaemonSet", "fairway"),
        (ALL_CONTROLLERS, "DaemonSet", "fairway"),
        ("system:node:somewhere", "", "fairway"),
        ("tenant", "", "default-scheduler"),
    ],
)
def test_daemon_sets_nodes_and_other_schedulers_may_name_a_node(
    guarded: ControlPlane, user: str, owner: str, scheduler: str
) -> None:
    thing = placed_pod("allowed", scheduler, owner)
    try:
        assert create(guarded, thing, user)["spec"]["nodeName"] == "somewhere"
    finally:
        remove(guarded, thing)


def test_a_pod_that_names_no_node_is_as_before(guarded: ControlPlane) -> None:
    thing = placed_pod("waits")
    del thing["spec"]["nodeName"]
    create(guarded, thing, "tenant")
    remove(guarded, thing)
