"""What `fairway install fleet` prints: the placer, and no more access than it uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cli import invoke


def printed(*arguments: str) -> list[dict[str, Any]]:
    result = invoke("install", "fleet", *arguments)
    assert result.code == 0, result.err
    return list(yaml.safe_load_all(result.out))


def of(kind: str, things: list[dict[str, Any]]) -> dict[str, Any]:
    found = [thing for thing in things if thing["kind"] == kind]
    assert len(found) == 1
    return found[0]


def test_it_is_the_placer_with_a_lease_of_its_own() -> None:
    things = printed("--image", "registry/fairway:1")
    container = of("Deployment", things)["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry/fairway:1"
    assert container["args"][0] == "fleet"
    assert "--lease-name=fairway-fleet" in container["args"]
    assert container["ports"] == [{"name": "http", "containerPort": 10260}]
    assert of("Service", things)["spec"]["ports"][0]["port"] == 10260
    assert {thing["metadata"]["name"] for thing in things} == {"fairway-system", "fairway-fleet"}
    kinds = {thing["kind"] for thing in things}
    assert not kinds & {"ConfigMap", "CustomResourceDefinition", "ValidatingAdmissionPolicy", "Queue"}


def test_no_rule_is_for_everything_and_none_changes_clusters_or_placements() -> None:
    rules = of("ClusterRole", printed())["rules"]
    assert "*" not in str(rules)
    written = {one for rule in rules for one in rule["resources"] if set(rule["verbs"]) - {"list", "watch"}}
    assert written == {
        "placementdecisions",
        "placementdecisions/status",
        "placements/status",
        "managedclusters/status",
        "events",
    }


@pytest.mark.parametrize("option", [["--crds-only"], ["--default-for-label", "a=b"]])
def test_options_of_the_scheduler_are_refused(option: list[str]) -> None:
    result = invoke("install", "fleet", *option)
    assert result.code == 2
    assert "install fleet does not accept" in result.err


def test_as_a_kustomize_base(tmp_path: Path) -> None:
    assert invoke("install", "fleet", "-o", "kustomize", "--out", str(tmp_path)).code == 0
    base = yaml.safe_load((tmp_path / "kustomization.yaml").read_text())
    assert base["resources"] == ["workload.yaml", "access.yaml"]


def test_the_chart_with_its_values_is_what_is_printed(tmp_path: Path) -> None:
    """Rendered by hand: the chart uses few of Helm's words."""
    given = ["--image", "registry/fairway:1", "--replicas", "3", "--namespace", "hub", "--service-monitor"]
    result = invoke("install", "fleet", "-o", "helm", "--out", str(tmp_path), *given)
    assert result.code == 0, result.err
    assert yaml.safe_load((tmp_path / "Chart.yaml").read_text())["name"] == "fairway-fleet"
    values = yaml.safe_load((tmp_path / "values.yaml").read_text())
    assert values == {"image": "registry/fairway:1", "replicas": 3, "serviceMonitor": True}
    rendered: list[Any] = []
    for file in sorted((tmp_path / "templates").iterdir()):
        text = file.read_text()
        for words, value in {
            "{{- if .Values.serviceMonitor }}": "",
            "{{- end }}": "",
            "{{ .Release.Namespace }}": "hub",
            "{{ .Values.image | quote }}": '"registry/fairway:1"',
            "{{ .Values.replicas }}": "3",
        }.items():
            text = text.replace(words, value)
        assert "{{" not in text
        rendered += [thing for thing in yaml.safe_load_all(text) if thing]
    expected = [thing for thing in printed(*given) if thing["kind"] != "Namespace"]
    assert sorted(map(str, rendered)) == sorted(map(str, expected))


def test_another_part_is_an_error() -> None:
    assert invoke("install", "hub").code == 2
