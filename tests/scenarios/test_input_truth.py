"""What objects say about themselves and others counts as Kubernetes means it, and what has no effect is named."""

import json
from typing import Any

import pytest

from fairway.api.manifests import load, parse_object
from fairway.errors import ManifestError
from support.cli import run_plan
from support.engine import bound, plan
from support.objects import group, made, manifest, node, pod, queue


def resized(name: str, spec: str, *, node: str = "n", **status: Any) -> Any:
    thing = manifest(pod(name, node=node, cpu=spec))
    thing.setdefault("status", {})["containerStatuses"] = [{"name": "main", **status}]
    return parse_object(thing)


class TestResize:
    @pytest.mark.parametrize(
        ("spec", "status", "free"),
        [
            ("1", {"allocatedResources": {"cpu": "3"}}, False),
            ("1", {"resources": {"requests": {"cpu": "3"}}}, False),
            ("3", {"allocatedResources": {"cpu": "1"}}, False),
            ("1", {"allocatedResources": {"cpu": "1000m"}}, True),
            ("1", {"allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}, True),
        ],
        ids=["shrinking", "not yet smaller", "growing", "the same in other words", "the same"],
    )
    def test_the_larger_of_spec_and_allocated_counts(self, spec: str, status: dict[str, Any], free: bool) -> None:
        found = plan(node("n", cpu=4), resized("r", spec, **status), pod("p", cpu=2))
        assert bound(found) == ({"p": "n"} if free else {})
        assert found.queues[0].allocated["cpu"] == "3"

    def test_a_pod_that_waits_asks_by_its_spec(self) -> None:
        waiting = resized("p", "1", node="", allocatedResources={"cpu": "9"})
        assert bound(plan(node("n", cpu=4), waiting)) == {"p": "n"}

    def test_a_quantity_that_is_none_is_an_error(self) -> None:
        with pytest.raises(ManifestError, match="allocatedResources"):
            resized("p", "1", allocatedResources={"cpu": "many"})


def test_pods_on_a_node_that_is_not_there_count_in_their_queue_with_a_warning() -> None:
    found = plan(node("n", cpu=4), queue("q"), [pod(f"p{i}", node="gone", cpu=1, queue="q") for i in range(2)])
    assert {entry.name: entry.allocated["cpu"] for entry in found.queues}["q"] == "2"
    assert "node gone is not there, but 2 pods are on it: counted in their queues" in found.warnings


def test_fields_of_volcano_that_have_no_effect_are_named(tmp_path: Any) -> None:
    odd = manifest(queue("q"))
    odd["spec"] |= {"type": "preemptible", "extendClusters": [], "weight": 2}
    odd_group = manifest(made("PodGroup", "g", "default", spec={"minMember": 1}))
    odd_group["spec"]["subGroupPolicy"] = []
    note = manifest(group("h", annotations={"volcano.sh/revocable-zone": "rz1"}))
    result = run_plan([node("n", cpu=1), odd, odd_group, note], tmp_path)
    assert result.code == 0
    assert "queue q: spec.type is not honoured: all queues are alike" in result.err
    assert "queue q: spec.extendClusters is not honoured" in result.err
    assert "podgroup default/g: spec.subGroupPolicy is not honoured: the job waits; minTaskMember" in result.err
    assert "podgroup default/h: volcano.sh/revocable-zone 'rz1' is not honoured" in result.err
    assert "weight" not in result.err


@pytest.mark.parametrize(
    "name", ["kai.scheduler/queue", "yunikorn.apache.org/queue", "gpu-fraction", "kueue.x-k8s.io/pod-group-name"]
)
@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_marks_of_other_schedulers_are_a_warning_never_silence(name, where):
    found = plan(node("n", cpu=4), pod("p", cpu=1, **{where: {name: "x"}}))
    (said,) = [warning for warning in found.warnings if name in warning]
    assert said.startswith(f"pod default/p: {name} 'x' is not honoured: ")


def test_a_queue_named_on_the_job_and_not_on_its_pods_is_a_warning(tmp_path):
    def warnings(labels, template):
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train", "namespace": "team", "labels": labels},
            "spec": {"template": {"metadata": {"labels": template}, "spec": {"containers": [{"name": "c"}]}}},
        }
        file = tmp_path / "job.yaml"
        file.write_text(json.dumps(job))
        return load([str(file)]).warnings

    queue = {"kueue.x-k8s.io/queue-name": "research"}
    assert warnings(queue, {}) == [
        "Job team/train: metadata: kueue.x-k8s.io/queue-name is not honoured there: put it on the pod template"
    ]
    assert warnings(queue, queue) == []
