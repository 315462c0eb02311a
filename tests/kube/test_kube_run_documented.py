"""The commands of docs/kubernetes.md, as they stand there, on a real API server: install, look, record, uninstall."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.cluster import eventually
from kube.controlplane.plane import ControlPlane, data_folder
from kube.shell import Shell

PAGE = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text()
BLOCKS = [line.strip() for line in PAGE.splitlines() if line.startswith("    ")]
FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
INLINE = [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", FENCED.sub("", PAGE))]
EXAMPLES = Path(__file__).parents[2] / "examples" / "policies"
EXAMPLE = FENCED.findall(PAGE)[0]


def command(beginning: str) -> str:
    """The one command of the page that begins so."""
    (found,) = {one for one in (*BLOCKS, *INLINE) if one.startswith(beginning)}
    return found


@pytest.fixture(name="shell", scope="module")
def a_cluster_of_its_own(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Definitions are deleted here, so no other test may use it. `plane` says whether there are servers at all."""
    folder = tmp_path_factory.mktemp("prod")
    data = data_folder(folder)
    own = ControlPlane(data)
    own.start()
    try:
        yield Shell(own, folder, "prod")
    finally:
        own.stop()
        shutil.rmtree(data, ignore_errors=True)


def install(shell: Shell) -> str:
    shell.run(command("fairway install --crds-only | kubectl"))
    return shell.run(command("fairway install --image"))


def pods_of_the_example(shell: Shell) -> None:
    """What the Job controller would make of it."""
    group, job = yaml.safe_load_all(EXAMPLE)
    template = job["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    for number in range(job["spec"]["parallelism"]):
        meta = {**template["metadata"], "name": f"train-{number}", "ownerReferences": [owner]}
        pod = {"metadata": meta, "spec": template["spec"]}
        shell.plane.call("POST", f"/api/v1/namespaces/{group['metadata']['namespace']}/pods", pod)


def left_over(shell: Shell) -> list[str]:
    """All that is there of what `fairway install` prints."""
    found = []
    for one in yaml.safe_load_all(shell.run("fairway install")):
        meta = one["metadata"]
        where = f"-n {meta['namespace']}" if "namespace" in meta else ""
        shown = shell.run(
            f"kubectl get {one['kind']} {meta['name']} {where} -o name --ignore-not-found 2>/dev/null || true"
        )
        found += shown.split()
    return found


def test_it_is_installed_by_the_two_commands_and_upgraded_by_the_same(shell: Shell) -> None:
    assert "deployment.apps/fairway created" in install(shell)
    again = install(shell)
    assert "deployment.apps/fairway unchanged" in again
    assert "created" not in again
    assert shell.run("kubectl get queues -o name").split() == ["queue.scheduling.volcano.sh/default"]


def test_the_example_is_taken_and_the_questions_of_the_page_have_answers(shell: Shell) -> None:
    install(shell)
    shell.plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}})
    shell.plane.call("POST", "/api/v1/namespaces/team-a/serviceaccounts", {"metadata": {"name": "default"}})
    (shell.folder / "example.yaml").write_text(EXAMPLE)
    (shell.folder / "new.yaml").write_text("actions: enqueue, allocate\n")
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "research"}}
    shell.plane.call("POST", "/apis/scheduling.volcano.sh/v1beta1/queues", {**queue, "spec": {"weight": 1}})
    assert shell.run("kubectl apply -f example.yaml").count("created") == 2
    pods_of_the_example(shell)

    assert "train" in shell.run(command("fairway queue --context prod"))
    assert "train" in shell.run(command("fairway get jobs --context prod"))
    assert "train" in shell.run(command("fairway order team-a/train --context prod"))
    assert "train" in shell.run(command("fairway explain team-a/train --context prod"))
    assert "train" in shell.run(command("fairway plan --context prod"))
    shell.run(command("fairway record --context prod"))
    assert "train" in shell.run(command("fairway plan -f snapshot/objects"))
    assert "train" in shell.run(command("fairway replay snapshot/cycle"))
    assert "Min Member:  4" in shell.run(f"{command('kubectl describe podgroup')} -n team-a")
    for what in ("kubectl get queues", "kubectl get reservations -A"):
        shell.run(command(what))
    group = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team-a/podgroups/train/status"
    placed = {
        "type": "Scheduled",
        "status": "True",
        "reason": "GangReady",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    shell.plane.call("PATCH", group, {"status": {"conditions": [placed]}}, kind="merge")
    assert "condition met" in shell.run(f"{command('kubectl wait')} -n team-a --timeout=30s")


def test_a_dry_run_beside_another_scheduler_writes_nothing(shell: Shell) -> None:
    (shell.folder / "policy.yaml").write_text((EXAMPLES / "volcano.yaml").read_text())
    process = shell.start(command("fairway run --scheduler-names volcano --policy policy.yaml --dry-run"))
    try:
        eventually(lambda: "all kinds listed" in shell.log)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, shell.log


def test_it_goes_without_its_definitions_by_the_commands_that_keep_them(shell: Shell) -> None:
    install(shell)
    shell.run(f"{command('kubectl delete ns')} --wait=false")
    finalize(shell, "fairway-system")
    shell.run(command("kubectl delete clusterrole,"))
    shell.run(command("kubectl delete clusterrole fairway-resource-class-user"))
    shell.run(command("kubectl delete validatingadmissionpolicies,"))
    kinds = {one.partition("/")[0] for one in left_over(shell)}
    assert kinds == {"customresourcedefinition.apiextensions.k8s.io", "queue.scheduling.volcano.sh"}


def test_it_goes_whole_by_the_other_two(shell: Shell) -> None:
    for one in BLOCKS[BLOCKS.index(command("fairway install -o yaml")) :][:2]:
        shell.run(f"{one} --wait=false" if one.startswith("kubectl") else one)
    finalize(shell, "fairway-system")
    eventually(lambda: left_over(shell) == [])


def finalize(shell: Shell, namespace: str) -> None:
    """What the namespace controller does; none runs here. Its objects go first."""
    path = f"/api/v1/namespaces/{namespace}"
    found: dict[str, Any] = json.loads(shell.run(f"kubectl get ns {namespace} -o json --ignore-not-found") or "{}")
    if not found:
        return
    kinds = "deployment,service,configmap,serviceaccount,poddisruptionbudget,networkpolicy,role,rolebinding"
    shell.run(f"kubectl -n {namespace} delete {kinds} --all")
    shell.plane.call("PUT", f"{path}/finalize", {**found, "spec": {"finalizers": []}})
