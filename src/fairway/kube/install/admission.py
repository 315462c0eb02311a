"""Rules at the API server without webhooks (spec K27 to K30): CEL policies that Kubernetes itself evaluates.

- Who may use a ResourceClass: whoever creates the pod, or the pod's service account, must have the verb `use` on it; so
  must whoever creates a ResourceClaim, or a template, that names it.
- Which namespaces may use a queue: those that its `allowedNamespaces` selects.
- Reservations, EvictionRecords, and the record of a pod's devices, are written by Fairway alone.
- Which node a pod goes to: nothing but a DaemonSet's controller, and a kubelet for its own node, creates a pod of
  Fairway's with a node's name in it. Such a pod is bound when it is created, past queues, shares and reservations.
- Where an operator wants it: pods of labelled namespaces get Fairway as their scheduler.

The scheduler checks the first two again. A pod that slipped through, because a policy was missing when it was created,
waits with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairway.state.annotations import QUEUE_NAMES
from fairway.state.device_requests import CLASS_PREFIX, RECORD_PREFIX

Manifest = dict[str, Any]

MAX_CLASSES = 8
"""Classes of one pod: one check of access costs a third of what an expression may cost, so each has its own."""

DAEMON_SET_CONTROLLERS = ["system:serviceaccount:kube-system:daemon-set-controller", "system:kube-controller-manager"]
"""Under which of them it runs is the control plane's choice (`--use-service-account-credentials`)."""

_NO_LABELS = "has(namespaceObject.metadata.labels) ? namespaceObject.metadata.labels : {}"


def policies(identity: str, scheduler_names: Sequence[str]) -> list[Manifest]:
    """Policies with their bindings. `identity` is the user name that the scheduler has; pods are its own by one of the
    `scheduler_names`.
    """
    return [
        *_bound(_class_policy()),
        *_bound(_claimed_class_policy(identity), params=True),
        *_bound(_queue_policy(), params=True),
        *_bound(
            _own_objects_policy("reservations", "only Fairway writes reservations; delete one to cancel it", identity)
        ),
        *_bound(_own_objects_policy("evictionrecords", "only Fairway writes eviction records", identity)),
        *_bound(_record_policy(identity)),
        *_bound(_node_name_policy(scheduler_names)),
    ]


def _policy(name: str, spec: Manifest) -> Manifest:
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def _bound(policy: Manifest, *, params: bool = False) -> list[Manifest]:
    name = policy["metadata"]["name"]
    spec: Manifest = {"policyName": name, "validationActions": ["Deny"]}
    if params:
        spec["paramRef"] = {"selector": {}, "parameterNotFoundAction": "Allow"}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding"}
    return [policy, {**head, "metadata": {"name": name}, "spec": spec}]


def _match(group: str, version: str, resource: str, *operations: str) -> Manifest:
    rule = {"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": list(operations)}
    return {"resourceRules": [rule]}


# -- classes -----------------------------------------------------------------------------------------------------


def _class_policy() -> Manifest:
    """The names are sorted: a map has another order each time, and each validation must see the same."""
    containers = "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])"
    names = (
        "variables.containers.map(c, has(c.resources) && has(c.resources.limits) ? "
        f"c.resources.limits.map(k, k).filter(k, k.startsWith('{CLASS_PREFIX}'))"
        f".map(k, k.substring({len(CLASS_PREFIX)})) : []).flatten().distinct().sort()"
    )
    account = (
        "has(object.spec.serviceAccountName) && object.spec.serviceAccountName != '' ? "
        "object.spec.serviceAccountName : 'default'"
    )
    return _policy(
        "fairway-resource-classes",
        {
            "failurePolicy": "Fail",
            "matchConstraints": _match("", "v1", "pods", "CREATE"),
            "matchConditions": [{"name": "asks-for-a-class", "expression": _asks_for_a_class()}],
            "variables": [
                {"name": "containers", "expression": containers},
                {"name": "classes", "expression": names},
                {"name": "account", "expression": account},
            ],
            "validations": [
                {
                    "expression": f"size(variables.classes) <= {MAX_CLASSES}",
                    "messageExpression": f"'the pod asks for ' + string(size(variables.classes)) + ' resource classes,"
                    f" expected at most {MAX_CLASSES}'",
                    "reason": "Invalid",
                },
                *(_class_validation(place) for place in range(MAX_CLASSES)),
            ],
        },
    )


def _asks_for_a_class() -> str:
    one = f"has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(k, k.startsWith('{CLASS_PREFIX}'))"
    later = f"has(object.spec.initContainers) && object.spec.initContainers.exists(c, {one})"
    return f"object.spec.containers.exists(c, {one}) || ({later})"


def _class_validation(place: int) -> Manifest:
    name = f"variables.classes[{place}]"
    access = f"group('fairway.dev').resource('resourceclasses').name({name}).check('use').allowed()"
    account = "authorizer.serviceAccount(object.metadata.namespace, variables.account)"
    text = (
        f"'neither ' + request.userInfo.username + ' nor the service account ' + variables.account + "
        f"' may use the resource class ' + {name} + ': the verb use on resourceclasses of fairway.dev allows it'"
    )
    return {
        "expression": f"size(variables.classes) <= {place} || authorizer.{access} || {account}.{access}",
        "messageExpression": text,
        "reason": "Forbidden",
    }


def _claimed_class_policy(identity: str) -> Manifest:
    """Evaluated for every class, which is the parameter: DeviceClasses that are none of Fairway's are for all. Claims
    from a template are made by Kubernetes; its creator was checked.

    A server takes up to half a minute to find the definition of a parameter, and does not find one that was deleted:
    with `Fail` it would refuse every claim of the cluster for as long. So no expression may fail on a claim that names
    a class: all that may be missing is looked for first, and the longest claim costs far less than the limit.
    """
    spec = "(request.kind.kind == 'ResourceClaimTemplate' ? object.spec.spec : object.spec)"
    names = (
        "has(variables.spec.devices) && has(variables.spec.devices.requests) ? variables.spec.devices.requests.map(r, "
        "has(r.exactly) ? [r.exactly.deviceClassName] : "
        "has(r.firstAvailable) ? r.firstAvailable.map(s, s.deviceClassName) : []).flatten() : []"
    )
    makers = [identity, "system:kube-controller-manager", "system:serviceaccount:kube-system:resource-claim-controller"]
    match = _match("resource.k8s.io", "v1", "resourceclaims", "CREATE")
    match["resourceRules"][0]["resources"].append("resourceclaimtemplates")
    return _policy(
        "fairway-claimed-classes",
        {
            "failurePolicy": "Ignore",
            "paramKind": {"apiVersion": "fairway.dev/v1alpha1", "kind": "ResourceClass"},
            "matchConstraints": match,
            "matchConditions": [{"name": "is-a-user", "expression": f"!(request.userInfo.username in {makers})"}],
            "variables": [
                {"name": "spec", "expression": spec},
                {"name": "names", "expression": names},
            ],
            "validations": [
                {
                    "expression": "!(params.metadata.name in variables.names) || authorizer.group('fairway.dev')"
                    ".resource('resourceclasses').name(params.metadata.name).check('use').allowed()",
                    "messageExpression": "request.userInfo.username + ' may not use the resource class ' + "
                    "params.metadata.name + ': the verb use on resourceclasses of fairway.dev allows it'",
                    "reason": "Forbidden",
                }
            ],
        },
    )


# -- queues ------------------------------------------------------------------------------------------------------


def _queue_policy() -> Manifest:
    """Evaluated for every queue, which is the parameter: only the one that the object names has a say. Where there are
    no queues it must not keep pods out, so a failure lets them in: the scheduler checks again.
    """
    spec = "has(params.spec) && has(params.spec.allowedNamespaces)"
    allowed = (
        f"!({spec}) || ("
        "(!has(params.spec.allowedNamespaces.matchLabels) || params.spec.allowedNamespaces.matchLabels.all(k, "
        "k in variables.labels && variables.labels[k] == params.spec.allowedNamespaces.matchLabels[k])) && "
        "(!has(params.spec.allowedNamespaces.matchExpressions) || "
        "params.spec.allowedNamespaces.matchExpressions.all(e, "
        "e.operator == 'Exists' ? e.key in variables.labels : "
        "e.operator == 'DoesNotExist' ? !(e.key in variables.labels) : "
        "e.operator == 'In' ? e.key in variables.labels && variables.labels[e.key] in e.values : "
        "!(e.key in variables.labels && variables.labels[e.key] in e.values))))"
    )
    match = _match("", "v1", "pods", "CREATE")
    match["resourceRules"] += _match("scheduling.volcano.sh", "*", "podgroups", "CREATE", "UPDATE")["resourceRules"]
    return _policy(
        "fairway-queues",
        {
            "failurePolicy": "Ignore",
            "paramKind": {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"},
            "matchConstraints": match,
            "variables": [
                {"name": "labels", "expression": _NO_LABELS},
                {"name": "queue", "expression": _queue_expression()},
                {"name": "allowed", "expression": allowed},
            ],
            "validations": [
                {
                    "expression": "variables.queue != params.metadata.name || variables.allowed",
                    "messageExpression": "'namespace ' + namespaceObject.metadata.name + ' may not use queue ' + "
                    "params.metadata.name",
                    "reason": "Forbidden",
                }
            ],
        },
    )


def _queue_expression() -> str:
    """The queue that a group's spec, else a label or annotation of the object or its namespace names."""
    named = [
        ("request.kind.kind == 'PodGroup' && has(object.spec) && has(object.spec.queue) && object.spec.queue != ''",
         "object.spec.queue"),
    ]  # fmt: skip
    for thing in ("object", "namespaceObject"):
        for name in QUEUE_NAMES:
            for field in ("labels", "annotations"):
                place = f"{thing}.metadata.{field}"
                named.append((f"has({place}) && '{name}' in {place} && {place}['{name}'] != ''", f"{place}['{name}']"))
    expression = "'default'"
    for condition, value in reversed(named):
        expression = f"{condition} ? {value} : ({expression})"
    return expression


# -- what only Fairway writes --------------------------------------------------------------------------------------


def _own_objects_policy(plural: str, message: str, identity: str) -> Manifest:
    same = (
        "oldObject != null && object.spec == oldObject.spec && has(object.status) == has(oldObject.status) && "
        "(!has(object.status) || object.status == oldObject.status)"
    )
    return _policy(
        f"fairway-{plural}",
        {
            "failurePolicy": "Fail",
            "matchConstraints": _match("fairway.dev", "*", plural, "CREATE", "UPDATE"),
            "validations": [
                {
                    "expression": f"request.userInfo.username == '{identity}' || ({same})",
                    "message": message,
                    "reason": "Forbidden",
                }
            ],
        },
    )


def _record_policy(identity: str) -> Manifest:
    """Which devices a pod has is read back from its annotations: nothing that a user writes may count there."""
    prefix = f"'{RECORD_PREFIX}'"
    notes = "has(object.metadata.annotations) ? object.metadata.annotations : {}"
    old = "oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"
    return _policy(
        "fairway-device-records",
        {
            "failurePolicy": "Fail",
            "matchConstraints": _match("", "v1", "pods", "CREATE", "UPDATE"),
            "matchConditions": [{"name": "has-a-record", "expression": _has_record("object", "oldObject")}],
            "variables": [{"name": "now", "expression": notes}, {"name": "before", "expression": old}],
            "validations": [
                {
                    "expression": f"request.userInfo.username == '{identity}' || "
                    f"(variables.now.all(k, !k.startsWith({prefix}) || "
                    "(k in variables.before && variables.before[k] == variables.now[k])) && "
                    f"variables.before.all(k, !k.startsWith({prefix}) || k in variables.now))",
                    "message": f"annotations {RECORD_PREFIX}* record the devices of a pod: only Fairway writes them",
                    "reason": "Forbidden",
                }
            ],
        },
    )


def _node_name_policy(scheduler_names: Sequence[str]) -> Manifest:
    """Only `create` can set it: afterwards a node is given by a binding alone, which is a resource of its own.

    One user name may be that of all controllers of Kubernetes, and a ReplicaSet's template is its owner's to write. So
    the pod must be a DaemonSet's too: its controller writes the owner, whatever the template says.
    """
    names = f"'{','.join(scheduler_names)}'.split(',')"
    owned = (
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, "
        "has(o.controller) && o.controller && o.kind == 'DaemonSet' && o.apiVersion.startsWith('apps/'))"
    )
    return _policy(
        "fairway-node-names",
        {
            "failurePolicy": "Fail",
            "matchConstraints": _match("", "v1", "pods", "CREATE"),
            "matchConditions": [
                {"name": "names-a-node", "expression": "has(object.spec.nodeName) && object.spec.nodeName != ''"},
                {
                    "name": "is-fairways",
                    "expression": f"has(object.spec.schedulerName) && object.spec.schedulerName in {names}",
                },
            ],
            "validations": [
                {
                    "expression": "request.userInfo.username == 'system:node:' + object.spec.nodeName || "
                    f"(request.userInfo.username in {DAEMON_SET_CONTROLLERS} && {owned})",
                    "messageExpression": "'spec.nodeName is set, which bypasses the queues of scheduler ' + "
                    "object.spec.schedulerName + ': leave it out, or use a node selector'",
                    "reason": "Forbidden",
                }
            ],
        },
    )


def _has_record(*things: str) -> str:
    return " || ".join(
        f"({thing} != null && has({thing}.metadata.annotations) && "
        f"{thing}.metadata.annotations.exists(k, k.startsWith('{RECORD_PREFIX}')))"
        for thing in things
    )


# -- a default scheduler for some namespaces -----------------------------------------------------------------------


def default_scheduler(label: str, scheduler: str) -> list[Manifest]:
    """Pods of namespaces with a label (`key=value`, or `key`) that name no scheduler get this one."""
    key, equals, value = label.partition("=")
    selector: Manifest = (
        {"matchLabels": {key: value}} if equals else {"matchExpressions": [{"key": key, "operator": "Exists"}]}
    )
    name = "fairway-default-scheduler"
    match = {**_match("", "v1", "pods", "CREATE"), "namespaceSelector": selector}
    version = "admissionregistration.k8s.io/v1"
    policy = {
        "apiVersion": version,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": match,
            "matchConditions": [
                {
                    "name": "names-no-scheduler",
                    "expression": "!has(object.spec.schedulerName) || object.spec.schedulerName in "
                    "['', 'default-scheduler']",
                },
                {"name": "has-no-node", "expression": "!has(object.spec.nodeName) || object.spec.nodeName == ''"},
            ],
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {
                        "expression": f"Object{{spec: Object.spec{{schedulerName: '{scheduler}'}}}}"
                    },
                }
            ],
        },
    }
    head = {"apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}}
    return [policy, {**head, "spec": {"policyName": name}}]
