"""The chart rendered by Helm itself and the base built by kustomize, compared with what `fairway install` prints, and
taken by a real server. Skipped where the tool is absent; `FAIRWAY_HELM` names Helm where it is not on the path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.kube.install import output
from fairway.kube.install.options import InstallOptions
from kube.controlplane.build import cache_folder
from kube.controlplane.plane import ControlPlane

HELM = os.environ.get("FAIRWAY_HELM") or shutil.which("helm")
BUILT = cache_folder() / "kubectl"
KUBECTL = str(BUILT) if os.access(BUILT, os.X_OK) else shutil.which("kubectl")

needs_helm = pytest.mark.skipif(HELM is None, reason="Helm is not installed")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

OPTIONS = [
    InstallOptions(),
    InstallOptions(
        scheduler_names=("fairway", "volcano"),
        service_monitor=True,
        default_for_label="team=a",
        image="registry.example.com/fairway@sha256:1",
        volcano_crds=False,
        namespace="sched",
    ),
    InstallOptions(admission=False, replicas=3),
    InstallOptions(web=True),
    InstallOptions(web=True, allow_actions=True),
    InstallOptions(web=True, web_tls_secret="page-tls"),
]


def run(*command: str | None, given: str | None = None) -> str:
    done = subprocess.run(
        [part for part in command if part], input=given, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def templated(options: InstallOptions, folder: Path) -> str:
    chart = written(folder, output.helm_chart(options))
    return run(HELM, "template", "fairway", str(chart), "--namespace", options.namespace, "--kube-version", "1.36.4")


def by_name(text: str) -> dict[tuple[str, str], Any]:
    found = [thing for thing in yaml.safe_load_all(text) if thing]
    things = {(thing["kind"], thing["metadata"]["name"]): thing for thing in found}
    assert len(things) == len(found)
    return things


@needs_helm
@pytest.mark.parametrize("options", OPTIONS)
def test_helm_renders_what_install_prints(options: InstallOptions, tmp_path: Path) -> None:
    rendered = by_name(templated(options, tmp_path))
    printed = by_name(output.stream(options))
    printed.pop(("Namespace", options.namespace), None)  # Helm is told to make it, by --create-namespace
    for thing in [*rendered.values(), *printed.values()]:
        notes = thing["metadata"].get("annotations", {})
        for name in [name for name in notes if name.startswith("helm.sh/")]:
            del notes[name]
        if not notes:
            thing["metadata"].pop("annotations", None)
    assert rendered.keys() == printed.keys()
    for key, thing in printed.items():
        assert rendered[key] == thing, key


@needs_helm
def test_helm_finds_nothing_wrong_with_the_chart(tmp_path: Path) -> None:
    chart = written(tmp_path, output.helm_chart(OPTIONS[1]))
    assert "0 chart(s) failed" in run(HELM, "lint", str(chart), "--kube-version", "1.36.4")


@needs_kubectl
@pytest.mark.parametrize("options", OPTIONS)
def test_kustomize_builds_what_install_prints(options: InstallOptions, tmp_path: Path) -> None:
    built = by_name(run(KUBECTL, "kustomize", str(written(tmp_path, output.kustomize_base(options)))))
    assert built == by_name(output.stream(options))


@needs_kubectl
@pytest.mark.parametrize("way", ["install", "kustomize", pytest.param("helm", marks=needs_helm)])
def test_the_server_takes_each_of_them(way: str, plane: ControlPlane, tmp_path: Path) -> None:
    """In a namespace that is there, and with the definitions: a dry run makes neither."""
    options = InstallOptions(namespace="default")
    kubectl = (KUBECTL, "--kubeconfig", str(plane.kubeconfig()), "apply", "-f", "-")
    run(*kubectl, "--server-side", given=output.stream(InstallOptions(crds_only=True)))
    run(KUBECTL, "--kubeconfig", str(plane.kubeconfig()), "wait", "--for=condition=Established", "crd", "--all")
    text = output.stream(options)
    if way == "kustomize":
        text = run(KUBECTL, "kustomize", str(written(tmp_path, output.kustomize_base(options))))
    elif way == "helm":
        text = templated(options, tmp_path)
    said = run(*kubectl, "--dry-run=server", given=text)
    names = {line.split(" ")[0] for line in said.splitlines()}
    assert len(names) == len([thing for thing in yaml.safe_load_all(text) if thing])
