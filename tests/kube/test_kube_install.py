"""What `fairway install` prints: schemas that follow the structs, access that follows the kinds, in three forms."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import inspect

from fairway.api.policy import parse_policy
from fairway.kube.install import output
from fairway.kube.install.access import cluster_rules, plural
from fairway.kube.install.crds import fairway_crds, volcano_crds
from fairway.kube.install.options import DEFAULT_POLICY, InstallOptions
from fairway.kube.kinds import SCHEDULER_KINDS
from fairway.scheduler.plugins.installed import default_registry
from support.cli import invoke

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in (*fairway_crds(), *volcano_crds())}
STRUCTS = {kind.name: kind.struct for kind in SCHEDULER_KINDS if kind.name in CRDS and kind.converted is None}
OF_OTHER_APIS = {"PodGroup.spec.priority", "PodGroup.spec.topology", "PodGroup.spec.evictWhole"}


def schema_of(kind: str) -> Any:
    return CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def fields(kind: inspect.Type, path: str) -> Iterator[tuple[str, bool]]:
    """Every field of a struct and of what is inside it, with whether it must be there."""
    if isinstance(kind, inspect.Metadata):
        yield from fields(kind.type, path)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield f"{path}.{field.encode_name}", field.required
            yield from fields(field.type, f"{path}.{field.encode_name}")
    elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
        yield from fields(kind.item_type, f"{path}[]")
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from fields(one, path)


def properties(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}", part
        yield from properties(part, f"{path}.{name}")
        if "items" in part:
            yield from properties(part["items"], f"{path}.{name}[]")


@pytest.mark.parametrize("kind", sorted(CRDS))
def test_a_schema_has_every_field_that_is_read(kind: str) -> None:
    """A field of a struct without a place in the schema would be dropped by the server."""
    have = dict(properties(schema_of(kind), kind))
    for path, _ in fields(inspect.type_info(STRUCTS[kind]), kind):
        if (
            not path.startswith(f"{kind}.metadata")
            and path not in OF_OTHER_APIS
            and not path.startswith("PodGroup.spec.topology")
        ):
            assert path in have


@pytest.mark.parametrize("kind", sorted(CRDS))
def test_a_schema_asks_for_what_the_struct_asks_for(kind: str) -> None:
    """What is taken by the server can be read."""
    for path, required in fields(inspect.type_info(STRUCTS[kind]), kind):
        if not required or path.startswith("PodGroup.spec.topology"):
            continue
        *above, name = path.split(".")
        schema = schema_of(kind)
        for part in above[1:]:
            schema = schema["properties"][part.removesuffix("[]")]
            schema = schema["items"] if part.endswith("[]") else schema
        assert name in schema.get("required", []), path


@pytest.mark.parametrize("kind", sorted(CRDS))
def test_kubectl_explains_every_field(kind: str) -> None:
    schema = schema_of(kind)
    assert schema["description"]
    for path, part in properties(schema, kind):
        if path.split(".")[1] in ("spec", "status"):
            assert part.get("description"), path


def test_every_kind_has_columns_and_short_names() -> None:
    for crd in CRDS.values():
        assert crd["spec"]["names"]["shortNames"]
        columns = [column["name"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]]
        assert len(columns) >= 3
        assert columns[-1] == "Age"


# -- access ------------------------------------------------------------------------------------------------------


def test_what_is_read_may_be_listed_and_watched_and_nothing_else_is() -> None:
    granted = {
        (group, resource)
        for rule in cluster_rules()
        if rule["verbs"] == ["list", "watch"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    read = {
        (version.rpartition("/")[0], plural(kind.name)) for kind in SCHEDULER_KINDS for version in kind.api_versions
    }
    assert granted == read
    assert ("", "secrets") not in granted
    assert ("storage.k8s.io", "csinodes") in granted
    assert ("scheduling.k8s.io", "priorityclasses") in granted


def test_no_rule_has_a_star_and_no_secret_is_read() -> None:
    for thing in output.objects(InstallOptions()):
        for rule in thing.get("rules", []):
            assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])
            assert "secrets" not in rule["resources"]


def test_the_deployment_needs_no_privilege() -> None:
    (deployment,) = [thing for thing in output.objects(InstallOptions()) if thing["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    assert deployment["spec"]["replicas"] == 2
    assert spec["securityContext"]["runAsNonRoot"] is True
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_flags_of_the_deployment_are_flags_of_its_commands() -> None:
    for container in pod_of(web=True, allow_actions=True, web_tls_secret="x")["containers"]:
        command, *flags = container["args"]
        help_text = invoke(command, "--help").out
        for flag in flags:
            assert f"{flag.partition('=')[0]} " in help_text


def test_the_policy_that_is_installed_is_one() -> None:
    policy = parse_policy(DEFAULT_POLICY, "default", default_registry().catalog)
    assert not policy.warnings


# -- the three forms ---------------------------------------------------------------------------------------------


def test_the_stream_is_the_objects() -> None:
    assert list(yaml.safe_load_all(output.stream(InstallOptions()))) == output.objects(InstallOptions())
    assert yaml.safe_load(invoke("install", "-o", "json").out)["items"] == output.objects(InstallOptions())


def test_crds_only_and_without_those_of_volcano() -> None:
    kinds = [thing["kind"] for thing in output.objects(InstallOptions(crds_only=True))]
    assert kinds == ["CustomResourceDefinition"] * 5
    names = {thing["metadata"]["name"] for thing in output.objects(InstallOptions(volcano_crds=False))}
    assert "queues.scheduling.volcano.sh" not in names
    assert "default" in names


@pytest.mark.parametrize(
    ("volcano_crds", "web", "secret"), [(True, True, ""), (True, True, "page-tls"), (False, False, "")]
)
def test_the_chart_with_its_values_is_the_stream(volcano_crds: bool, web: bool, secret: str) -> None:
    """Rendered by hand: the chart uses few of Helm's words, and each is known here."""
    options = InstallOptions(
        scheduler_names=("fairway", "volcano"),
        service_monitor=True,
        default_for_label="team=a",
        image="x/y@sha256:1",
        volcano_crds=volcano_crds,
        web=web,
        web_tls_secret=secret,
        allow_actions=web,
    )
    chart = output.helm_chart(options)
    values = yaml.safe_load(chart["values.yaml"])
    rendered: list[Any] = []
    for name, text in chart.items():
        if name.startswith("templates/"):
            rendered += [thing for thing in yaml.safe_load_all(render(text, values, options.namespace)) if thing]
    expected = [thing for thing in output.objects(options) if thing["kind"] != "Namespace"]
    for thing in rendered:
        if thing["kind"] == "Queue":
            del thing["metadata"]["annotations"]

    def key(thing: Any) -> tuple[str, str]:
        return thing["kind"], thing["metadata"]["name"]

    assert sorted(rendered, key=key) == sorted(expected, key=key)
    assert yaml.safe_load(chart["Chart.yaml"])["apiVersion"] == "v2"


def test_the_page_has_its_own_access_port_and_name() -> None:
    plain, page = (output.objects(InstallOptions(web=web)) for web in (False, True))
    more = [thing for thing in page if thing not in plain and thing["kind"] != "Deployment"]
    assert [(thing["kind"], thing["metadata"]["name"]) for thing in more] == [
        (kind, "fairway-page")
        for kind in ("ServiceAccount", "Secret", "Service", "NetworkPolicy", "ClusterRole", "ClusterRoleBinding")
    ]
    role, binding = more[4:]
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
    ]
    assert [subject["name"] for subject in binding["subjects"]] == ["fairway-page"]
    for thing in plain:  # the scheduler has none of it
        for rule in thing.get("rules", []):
            assert not {"tokenreviews", "subjectaccessreviews"} & set(rule["resources"])
    for flag in ("--allow-actions", "--web-tls-secret=x"):
        refused = invoke("install", flag)
        assert (refused.code, "--web" in refused.err) == (2, True)


def pod_of(**options: Any) -> Any:
    things = output.objects(InstallOptions(**options))
    (deployment,) = [thing for thing in things if thing["kind"] == "Deployment"]
    return deployment["spec"]["template"]["spec"]


@pytest.mark.parametrize("secret", ["", "page-tls"])
def test_the_page_is_a_container_with_limits_and_an_account_of_its_own(secret: str) -> None:
    pod = pod_of(web=True, web_tls_secret=secret)
    scheduler, page = pod["containers"]
    assert (scheduler["name"], page["name"], page["image"]) == ("scheduler", "page", scheduler["image"])
    assert page["resources"]["limits"].keys() == {"cpu", "memory"}
    assert page["securityContext"] == scheduler["securityContext"]
    assert pod["automountServiceAccountToken"] is False
    mounts = {one["name"]: {mount["name"]: mount for mount in one["volumeMounts"]} for one in pod["containers"]}
    assert mounts["scheduler"].keys() == {"feed", "scheduler-token"}
    assert mounts["page"].keys() == {"feed", "page-token", *(["page-tls"] if secret else [])}
    assert all(mount["readOnly"] for mount in mounts["page"].values())  # it can fill no volume of the scheduler's pod
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["page-token"]["secret"] == {"secretName": "fairway-page"}
    assert "--feed-socket=/run/fairway/feed.sock" in scheduler["args"]
    assert "--feed=/run/fairway/feed.sock" in page["args"]
    assert "--web-access=cluster" in page["args"]
    assert "--allow-actions" not in page["args"]
    assert ("--web-cert=/etc/fairway/tls/tls.crt" in page["args"]) == bool(secret)
    assert page["livenessProbe"]["httpGet"].get("scheme", "HTTP") == ("HTTPS" if secret else "HTTP")
    assert "readinessProbe" not in page
    assert "--allow-actions" in pod_of(web=True, allow_actions=True)["containers"][1]["args"]


def render(text: str, values: Any, namespace: str) -> str:
    chosen = re.match(
        r"\{\{- if not \.Values\.web \}\}\n(.*)\{\{- else if not \.Values\.webTlsSecret \}\}\n(.*)"
        r"\{\{- else \}\}\n(.*)\{\{- end \}\}\n$",
        text,
        re.S,
    )
    if chosen:
        text = chosen[1] if not values["web"] else chosen[2] if not values["webTlsSecret"] else chosen[3]
    found = re.match(r"\{\{- if (not )?\.Values\.([\w.]+) \}\}\n(.*)\{\{- end \}\}\n$", text, re.S)
    if found:
        value = values
        for part in found[2].split("."):
            value = value[part]
        if bool(value) == bool(found[1]):
            return ""
        text = found[3]
    for condition, value in ((".Values.allowActions", "allowActions"),):
        line = re.compile(rf"\{{\{{- if {re.escape(condition)} \}}\}}\n(.*\n)\{{\{{- end \}}\}}\n")
        text = line.sub(r"\1" if values[value] else "", text)
    key, _, label = values["defaultForLabel"].partition("=")
    for words, value in {
        "{{ .Release.Namespace }}": namespace,
        "{{ .Values.image | quote }}": f'"{values["image"]}"',
        "{{ .Values.replicas }}": str(values["replicas"]),
        "{{ index .Values.schedulerNames 0 }}": values["schedulerNames"][0],
        '{{ join "," .Values.schedulerNames }}': ",".join(values["schedulerNames"]),
        "{{ .Values.webTlsSecret | quote }}": f'"{values["webTlsSecret"]}"',
        "{{ .Values.policy | quote }}": yaml.dump(values["policy"], default_style='"', width=1_000_000).strip(),
        '{{ (splitn "=" 2 .Values.defaultForLabel)._0 }}': key,
        '{{ (splitn "=" 2 .Values.defaultForLabel)._1 | quote }}': f'"{label}"',
    }.items():
        text = text.replace(words, value)
    assert "{{" not in text
    return text


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kustomize_builds_the_base(tmp_path: Path) -> None:
    for name, text in output.kustomize_base(InstallOptions()).items():
        (tmp_path / name).write_text(text)
    built = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=True).stdout
    found = {(thing["kind"], thing["metadata"]["name"]) for thing in yaml.safe_load_all(built)}
    assert found == {(thing["kind"], thing["metadata"]["name"]) for thing in output.objects(InstallOptions())}


# -- the command -------------------------------------------------------------------------------------------------


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    printed = invoke("install", "--namespace", "sched", "--image", "me/fairway:1")
    things = list(yaml.safe_load_all(printed.out))
    (deployment,) = [thing for thing in things if thing["kind"] == "Deployment"]
    assert deployment["metadata"]["namespace"] == "sched"
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "me/fairway:1"
    assert invoke("install", "-o", "helm", "--out", str(tmp_path / "chart")).code == 0
    assert (tmp_path / "chart" / "templates" / "admission.yaml").exists()
    assert invoke("install", "-o", "kustomize", "--out", str(tmp_path / "base")).code == 0
    assert (tmp_path / "base" / "kustomization.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "helm"], "requires --out DIR"),
        (["--namespace", "Not_a_name"], "--namespace: is 'Not_a_name'"),
        (["--scheduler-names", "a,,b"], "--scheduler-names: is ''"),
        (["--default-for-label", "nothing"], "expected a namespace label KEY=VALUE"),
        (["--replicas", "0"], "replicas"),
        (["--policy", "there-is-none.yaml"], "cannot be read"),
    ],
)
def test_what_cannot_be_is_said(arguments: list[str], said: str) -> None:
    result = invoke("install", *arguments)
    assert result.code == 2
    assert said in result.err
    assert result.out == ""
