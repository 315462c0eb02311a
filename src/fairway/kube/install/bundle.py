"""Everything that is installed, in the order in which it is applied, and as files by what they are for."""

from __future__ import annotations

from typing import Any

from fairway.kube.install.access import cluster_rules, fleet_rules, namespace_rules, page_rules, rule, volcano_rules
from fairway.kube.install.admission import default_scheduler, policies
from fairway.kube.install.agent import agent
from fairway.kube.install.crds import fairway_crds, volcano_crds
from fairway.kube.install.options import InstallOptions
from fairway.kube.install.workload import labels, page, workload

Manifest = dict[str, Any]
Files = dict[str, list[Manifest]]

CLASS_USERS = "fairway-resource-class-user"


def files(options: InstallOptions) -> Files:
    """Objects by file name. Those of one file belong together; the order of files is the order to apply."""
    if options.part == "fleet":
        return {"workload": workload(options), "access": access(options, fleet_rules(), namespace_rules(options.name))}
    found: Files = {"crds-fairway": fairway_crds()}
    if options.volcano_crds:
        found["crds-volcano"] = volcano_crds()
    if options.crds_only:
        return found
    found["workload"] = workload(options)
    own = namespace_rules(options.name, options.policy_config_map)
    found["access"] = [*access(options, cluster_rules(), own), _class_users(options)]
    if not options.volcano_crds:
        found["access-volcano"] = volcano_access(options)
    if options.web:
        found["page"] = page(options)
        found["access-page"] = _further_access(options, "page", page_rules(), options.page_name)
    if options.admission:
        found["admission"] = policies(options.identity, options.scheduler_names)
    if options.agent:
        found["agent"] = agent(options)
    if options.default_for_label:
        found["default-scheduler"] = default_scheduler(options.default_for_label, options.scheduler_names[0])
    found["queue"] = [_default_queue()]
    return found


def objects(options: InstallOptions) -> list[Manifest]:
    return [thing for things in files(options).values() for thing in things]


def access(options: InstallOptions, whole: list[Manifest], own: list[Manifest]) -> list[Manifest]:
    """Rules for the whole cluster, and for the program's own namespace."""
    subject = {"kind": "ServiceAccount", "name": options.name, "namespace": options.namespace}
    group = "rbac.authorization.k8s.io"
    version = f"{group}/v1"
    meta = {"name": options.name, "labels": labels(options)}
    local = {**meta, "namespace": options.namespace}
    return [
        {"apiVersion": version, "kind": "ClusterRole", "metadata": meta, "rules": whole},
        {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": options.name},
            "subjects": [subject],
        },
        {
            "apiVersion": version,
            "kind": "Role",
            "metadata": local,
            "rules": own,
        },
        {
            "apiVersion": version,
            "kind": "RoleBinding",
            "metadata": local,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": options.name},
            "subjects": [subject],
        },
    ]


def _class_users(options: InstallOptions) -> Manifest:
    """To be bound by an administrator: whoever has it may ask for every ResourceClass."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": CLASS_USERS, "labels": labels(options)},
        "rules": [rule("fairway.dev", ["resourceclasses"], ["use"])],
    }


def volcano_access(options: InstallOptions) -> list[Manifest]:
    return _further_access(options, "volcano", volcano_rules())


def _further_access(options: InstallOptions, what: str, rules: list[Manifest], account: str = "") -> list[Manifest]:
    """Rules that only some installations need, in a role of their own, for the scheduler or another account."""
    group = "rbac.authorization.k8s.io"
    meta = {"name": f"{options.name}-{what}", "labels": labels(options)}
    return [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": meta["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": account or options.name, "namespace": options.namespace}],
        },
    ]


def _default_queue() -> Manifest:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    return {**head, "spec": {"weight": 1, "reclaimable": True}}
