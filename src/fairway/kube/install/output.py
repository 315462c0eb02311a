"""The objects of an installation: in the order in which they are applied, as files by purpose, and as text.

Text is one stream for kubectl, a kustomize base, or a Helm chart.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import yaml

from fairway import __version__
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
    by_file: Files = {"crds-fairway": fairway_crds()}
    if options.volcano_crds:
        by_file["crds-volcano"] = volcano_crds()
    if options.crds_only:
        return by_file
    by_file["workload"] = workload(options)
    own = namespace_rules(options.name, options.policy_config_map)
    by_file["access"] = [*access(options, cluster_rules(), own), _class_users(options)]
    if not options.volcano_crds:
        by_file["access-volcano"] = volcano_access(options)
    if options.web:
        by_file["page"] = page(options)
        by_file["access-page"] = _further_access(options, "page", page_rules(), options.page_name)
    if options.admission:
        by_file["admission"] = policies(options.identity, options.scheduler_names)
    if options.agent:
        by_file["agent"] = agent(options)
    if options.default_for_label:
        by_file["default-scheduler"] = default_scheduler(options.default_for_label, options.scheduler_names[0])
    by_file["queue"] = [_default_queue()]
    return by_file


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
    """For an administrator to bind: it grants the use of every ResourceClass."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": CLASS_USERS, "labels": labels(options)},
        "rules": [rule("fairway.dev", ["resourceclasses"], ["use"])],
    }


def volcano_access(options: InstallOptions) -> list[Manifest]:
    return _further_access(options, "volcano", volcano_rules())


def _further_access(options: InstallOptions, what: str, rules: list[Manifest], account: str = "") -> list[Manifest]:
    """Rules that only some installations need, in a separate role, for the scheduler or another account."""
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


# -- as text -----------------------------------------------------------------------------------------------------------


Texts = dict[str, str]
"""File names and their contents."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def documents(things: list[Manifest]) -> str:
    found = (yaml.dump(thing, Dumper=_Dumper, sort_keys=False, width=1_000_000) for thing in things)
    return "---\n" + "---\n".join(found)


def stream(options: InstallOptions) -> str:
    return documents(objects(options))


def json_list(options: InstallOptions) -> str:
    found = {"apiVersion": "v1", "kind": "List", "items": objects(options)}
    return json.dumps(found, indent=2) + "\n"


def kustomize_base(options: InstallOptions) -> Texts:
    found = {f"{name}.yaml": documents(things) for name, things in files(options).items()}
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(found)}
    return {"kustomization.yaml": documents([head]), **found}


# -- Helm --------------------------------------------------------------------------------------------------------

_VALUES = """\
image: {image}
replicas: {replicas}
# Scheduler names of the pods that Fairway schedules.
schedulerNames: [{scheduler_names}]
crds:
  # false if Volcano's own are installed
  volcano: {volcano_crds}
# Admission policies: which users may use classes and queues.
admission: {admission}
serviceMonitor: {service_monitor}
# The node agent, in the namespace fairway-agent.
agent: {agent}
# The page on port 8443, in a container of its own, for users with tokens of the cluster.
web: {web}
# The Secret (kubernetes.io/tls) with the page's certificate; "" for plain HTTP behind a proxy.
webTlsSecret: {web_tls_secret}
# Let users of the page act on jobs, with their own rights.
allowActions: {allow_actions}
# A label (key=value) of namespaces whose pods use Fairway if they name no scheduler; "" for none.
defaultForLabel: {default_for_label}
policy: |
{policy}"""

_FLEET_VALUES = """\
image: {image}
replicas: {replicas}
serviceMonitor: {service_monitor}
"""

_MARKS = InstallOptions(
    namespace="@namespace@",
    image="@image@",
    scheduler_names=("@schedulers@",),
    policy="@policy@",
    service_monitor=True,
    agent=True,
    web=True,
    web_tls_secret="@tls-secret@",
    allow_actions=True,
    default_for_label="@label-key@=@label-value@",
)
_FLEET_MARKS = InstallOptions(
    part="fleet", name="fairway-fleet", namespace="@namespace@", image="@image@", service_monitor=True
)
_PLACES = {
    "'@namespace@'": "{{ .Release.Namespace }}",
    "@namespace@": "{{ .Release.Namespace }}",
    "'@image@'": "{{ .Values.image | quote }}",
    "'@schedulers@'.split": """'{{ join "," .Values.schedulerNames }}'.split""",
    "@schedulers@": "{{ index .Values.schedulerNames 0 }}",
    "--scheduler-names={{ index .Values.schedulerNames 0 }}": '--scheduler-names={{ join "," .Values.schedulerNames }}',
    "'@policy@'": "{{ .Values.policy | quote }}",
    "'@tls-secret@'": "{{ .Values.webTlsSecret | quote }}",
    "'@label-key@': '@label-value@'": '{{ (splitn "=" 2 .Values.defaultForLabel)._0 }}: '
    '{{ (splitn "=" 2 .Values.defaultForLabel)._1 | quote }}',
    "replicas: 2": "replicas: {{ .Values.replicas }}",
}
_CONDITIONS = {
    "crds-volcano": ".Values.crds.volcano",
    "access-volcano": "not .Values.crds.volcano",
    "admission": ".Values.admission",
    "agent": ".Values.agent",
    "page": ".Values.web",
    "access-page": ".Values.web",
    "default-scheduler": ".Values.defaultForLabel",
    "service-monitor": ".Values.serviceMonitor",
}


_LINES = {"--allow-actions": ".Values.allowActions"}
"""Arguments that depend on a value."""
_DEPLOYMENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("if not .Values.web", {"web": False, "web_tls_secret": "", "allow_actions": False}),
    ("else if not .Values.webTlsSecret", {"web_tls_secret": ""}),
    ("else", {}),
)
"""The Deployment without the page, with it, and with its certificate, depending on values."""


def helm_chart(options: InstallOptions) -> Texts:
    """A chart whose values are the options. It installs into the namespace of the release and creates none."""
    what = "A fair, explainable batch scheduler for Kubernetes"
    chart = {
        "apiVersion": "v2",
        "name": options.name,
        "description": what if options.part == "scheduler" else "Placement over a fleet of clusters, on its hub",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.34.0-0",
    }
    found = {"Chart.yaml": yaml.dump(chart, sort_keys=False), "values.yaml": _values(options)}
    if options.part == "scheduler":
        found["templates/deployment.yaml"] = _deployments()
    for name, things in _chart_files(_MARKS if options.part == "scheduler" else _FLEET_MARKS).items():
        text = _marked(documents(things))
        condition = _CONDITIONS.get(name)
        found[f"templates/{name}.yaml"] = f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text
    return found


def _deployments() -> str:
    text = ""
    for condition, changes in _DEPLOYMENTS:
        things = files(replace(_MARKS, **changes))["workload"]
        (deployment,) = [thing for thing in things if thing["kind"] == "Deployment"]
        text += f"{{{{- {condition} }}}}\n" + _marked(documents([deployment]))
    return text + "{{- end }}\n"


def _chart_files(marks: InstallOptions) -> dict[str, list[Manifest]]:
    found = files(marks)
    found["workload"] = [thing for thing in found["workload"] if thing["kind"] != "Namespace"]
    found["service-monitor"] = [thing for thing in found["workload"] if thing["kind"] == "ServiceMonitor"]
    found["workload"] = [thing for thing in found["workload"] if thing["kind"] != "ServiceMonitor"]
    if marks.part == "fleet":
        return found
    found["workload"] = [thing for thing in found["workload"] if thing["kind"] != "Deployment"]
    for queue in found["queue"]:  # its kind is defined by this chart: it can only be created afterwards
        queue["metadata"]["annotations"] = {
            "helm.sh/hook": "post-install,post-upgrade",
            "helm.sh/resource-policy": "keep",
        }
    found["access-volcano"] = volcano_access(marks)
    return found


def _marked(text: str) -> str:
    for mark, place in _PLACES.items():
        text = text.replace(mark, place)
    for argument, condition in _LINES.items():
        line = re.compile(rf"^( *- {argument}.*\n)", re.MULTILINE)
        text = line.sub(rf"{{{{- if {condition} }}}}\n\1{{{{- end }}}}\n", text)
    return text


def _values(options: InstallOptions) -> str:
    def yes(value: bool) -> str:
        return "true" if value else "false"

    if options.part == "fleet":
        monitor = yes(options.service_monitor)
        return _FLEET_VALUES.format(image=options.image, replicas=options.replicas, service_monitor=monitor)
    return _VALUES.format(
        image=options.image,
        replicas=options.replicas,
        scheduler_names=", ".join(options.scheduler_names),
        volcano_crds=yes(options.volcano_crds),
        admission=yes(options.admission),
        service_monitor=yes(options.service_monitor),
        agent=yes(options.agent),
        web=yes(options.web),
        web_tls_secret=f'"{options.web_tls_secret}"',
        allow_actions=yes(options.allow_actions),
        default_for_label=f'"{options.default_for_label}"',
        policy="".join(f"  {line}\n" for line in options.policy.splitlines()),
    )
