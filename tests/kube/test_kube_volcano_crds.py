"""With Volcano's own definitions in place of ours, and ours against theirs: what theirs take, ours take too."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.api.meta import Condition
from fairway.clock import to_datetime, wall_clock
from fairway.kube.install.crds import volcano_crds
from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from fairway.kube.requests.statuses import StatusWrite, queue_status, volcano_group
from kube.controlplane.plane import SCHEDULER, ControlPlane
from kube.servers import Refused, apply, ask, create, eventually, namespace, remove

MODULE = "volcano.sh/volcano@v1.15.1"
FILES = ("scheduling.volcano.sh_queues.yaml", "scheduling.volcano.sh_podgroups.yaml")


@pytest.fixture(name="theirs", scope="module")
def volcanos_definitions(tmp_path_factory: pytest.TempPathFactory, plane: ControlPlane) -> list[dict[str, Any]]:
    """From the Go module, at the time of the test: nothing of it is kept here."""
    folder = tmp_path_factory.mktemp("volcano")
    found = subprocess.run(
        ["go", "mod", "download", "-json", MODULE], cwd=folder, capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"{MODULE} cannot be downloaded")
    where = Path(json.loads(found.stdout)["Dir"]) / "config" / "crd" / "volcano" / "bases"
    return [yaml.safe_load((where / name).read_text()) for name in FILES]


def schema(crd: dict[str, Any]) -> Any:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def narrower(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    """Where ours would refuse, or drop, what theirs take."""
    if ours.get("type") != theirs.get("type"):
        yield f"{path}: {ours.get('type')} instead of {theirs.get('type')}"
        return
    if "enum" in ours and not set(theirs.get("enum", ["anything"])) <= set(ours["enum"]):
        yield f"{path}: {ours['enum']}"
    if ours.get("minimum", 0) > theirs.get("minimum", ours.get("minimum", 0)):
        yield f"{path}: at least {ours['minimum']}"
    for name in set(ours.get("required", [])) - set(theirs.get("required", [])):
        yield f"{path}.{name}: required"
    for name, part in theirs.get("properties", {}).items():
        own = ours.get("properties", {}).get(name)
        if own is not None:
            yield from narrower(own, part, f"{path}.{name}")
        elif not ours.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{path}.{name}: dropped"
    if "items" in theirs and "items" in ours:
        yield from narrower(ours["items"], theirs["items"], f"{path}[]")


KNOWN = {
    "PodGroup.spec.networkTopology.highestTierAllowed: at least 1",  # tiers begin at 1: 0 would be no node at all
    "PodGroup.spec.subGroupPolicy[].networkTopology.highestTierAllowed: at least 1",
    "PodGroup.status.conditions[].status: required",  # a condition without a status says nothing
    "PodGroup.status.conditions[].type: required",
    "PodGroup.status.conditions[].status: ['False', 'True', 'Unknown']",  # as all conditions of Kubernetes
}


def test_what_their_schemas_take_ours_take_too(theirs: list[dict[str, Any]]) -> None:
    found = {
        text
        for ours, their in zip(volcano_crds(), theirs, strict=True)
        for part in ("spec", "status")
        for text in narrower(
            schema(ours)["properties"][part],
            schema(their)["properties"][part],
            f"{ours['spec']['names']['kind']}.{part}",
        )
    }
    assert found <= KNOWN


def test_our_statuses_are_taken_by_their_definitions(plane: ControlPlane, theirs: list[dict[str, Any]]) -> None:
    apply(plane, objects(InstallOptions(volcano_crds=False, crds_only=True)))
    apply(plane, theirs)
    apply(plane, objects(InstallOptions(volcano_crds=False)))
    space = namespace(plane, "volcano-crds")
    volcano = "scheduling.volcano.sh/v1beta1"
    queue = {"apiVersion": volcano, "kind": "Queue", "metadata": {"name": "theirs"}, "spec": {"weight": 2}}
    group = {
        "apiVersion": volcano,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": space},
        "spec": {"minMember": 2, "minResources": {"cpu": 1}},
    }
    made_queue, made_group = create(plane, queue), create(plane, group)
    assert made_group["spec"]["queue"] == "default"  # their schema fills it in: it is theirs
    waits = Condition("Unschedulable", "True", "GangNotReady", "0/1 nodes fit", to_datetime(wall_clock()))
    counts = {"running": 1, "succeeded": 0, "failed": 0}
    status = {"state": "Open", "allocated": {"cpu": "2"}, "pending": 1, "inqueue": 0, "running": 1}
    for write in (
        volcano_group(("PodGroup", space, "g"), made_group["metadata"]["uid"], "Inqueue", counts, [waits]),
        queue_status(("Queue", "", "theirs"), made_queue["metadata"]["uid"], {**status, "unknown": 0, "completed": 0}),
    ):
        assert eventually(lambda write=write: _sent(plane, write))["status"]
    found = ask(plane, "GET", f"/apis/{volcano}/namespaces/{space}/podgroups/g")["status"]
    assert (found["phase"], found["conditions"][0]["reason"]) == ("Inqueue", "GangNotReady")
    remove(plane, queue)
    remove(plane, group)
    apply(plane, volcano_crds())
    eventually(lambda: create(plane, queue)["spec"])
    remove(plane, queue)


def _sent(plane: ControlPlane, write: StatusWrite) -> Any:
    """As the scheduler; the second request where the first finds no status to write to."""
    for request in (write.request, write.or_else):
        assert request is not None
        try:
            body = json.loads(request.body or b"{}")
            return ask(plane, request.method, request.path, body, user=SCHEDULER, kind=request.content_type)
        except Refused as error:
            if error.status != 404 or request is write.or_else:
                raise
    return None
