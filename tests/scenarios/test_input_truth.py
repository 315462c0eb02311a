"""What objects say about themselves and others counts as Kubernetes means it, and what has no effect is named."""

import json
from typing import Any

import pytest

from fairway.api.manifests import load, parse_object
from fairway.api.templates import OF_PODS
from fairway.errors import ManifestError
from fairway.scheduler.decide import decide_and_explain
from fairway.state import annotations as names
from fairway.state.cluster import Deleted, Upserted
from support import engine
from support.cli import run_plan
from support.engine import bound, plan, state_of
from support.objects import NOW, group, made, manifest, node, pod, queue


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
    assert "node gone does not exist, but 2 pods are on it: counted in their queues" in found.warnings


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
    assert "podgroup default/g: spec.subGroupPolicy is not honoured: a job waits unless" in result.err
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


def test_every_mark_of_queues_and_gangs_on_a_workload_itself_is_known():
    """What a pod may say of its queue or gang, in anyone's words, may stand on its Job by mistake."""
    of_pods = {*names.QUEUE_NAMES, names.MIN_AVAILABLE, names.GROUP_NAME, *names.GROUP_LABELS, *names.NEEDED}
    foreign = {name for name in names.NOT_HONOURED if not name.startswith("volcano.sh/")} - {names.KUEUE_QUEUE}
    assert of_pods | foreign == set(OF_PODS)


def test_the_queue_that_kueue_has_admitted_a_pod_by_is_a_warning_where_the_pod_names_none():
    kueue = {"kueue.x-k8s.io/local-queue-name": "research", "kueue.x-k8s.io/podset": "main"}
    (said,) = warned_of("local-queue-name", node("n", cpu=4), pod("p", cpu=1, labels=kueue))
    assert said.startswith("pod default/p: kueue.x-k8s.io/local-queue-name 'research' is not honoured: put ")
    named = {**kueue, "kueue.x-k8s.io/queue-name": "research"}
    assert warned_of("local-queue-name", node("n", cpu=4), pod("p", cpu=1, labels=named)) == []


def warned_of(name, *objects, policy=None):
    return [text for text in plan(*objects, policy=policy).warnings if name in text]


@pytest.mark.parametrize(
    ("name", "without", "having"),
    [
        ("sla-waiting-time", {}, {"sla": {}}),
        ("volcano.sh/sla-waiting-time", {}, {"sla": {}}),
        ("fairway.dev/starving-after", {}, {"actions": "enqueue, reserve, allocate"}),
    ],
)
def test_what_no_part_of_the_policy_reads_is_a_warning(name, without, having):
    part = "action reserve" if name.startswith("fairway") else "plugin sla"
    gang = [group("g", minimum=1, annotations={name: "1h"}), pod("g-0", cpu=1, group="g")]
    lone = [pod(f"p{i}", cpu=1, annotations={name: "1h"}) for i in range(2)]
    one, several = (node("n", cpu=4), *gang), (node("n", cpu=4), *gang, *lone)
    assert warned_of(name, *one, policy=engine.policy(**without)) == [
        f"podgroup default/g: {name} has no effect: the policy has no {part}"
    ]
    assert warned_of(name, *several, policy=engine.policy(**without)) == [
        f"pod default/p0 and 2 other objects: {name} has no effect: the policy has no {part}"
    ]
    assert warned_of(name, *several, policy=engine.policy(**having)) == []


def test_a_warning_ends_with_the_objects_that_it_is_about():
    stating, policy = pod("p", cpu=1, annotations={"sla-waiting-time": "1h"}), engine.policy()
    state = state_of(node("n", cpu=4), stating)
    assert any("sla-waiting-time" in text for text in decide_and_explain(state, policy, NOW).warnings)
    state.apply(Upserted(pod("p", cpu=1)))
    assert not any("sla-waiting-time" in text for text in decide_and_explain(state, policy, NOW).warnings)
    state.apply(Upserted(stating))
    state.apply(Deleted(stating))
    assert not any("sla-waiting-time" in text for text in decide_and_explain(state, policy, NOW).warnings)


@pytest.mark.parametrize("name", ["sla-waiting-time", "fairway.dev/starving-after"])
def test_what_a_group_says_is_not_honoured_on_its_pods(name):
    policy = engine.policy(actions="enqueue, reserve, allocate", sla={})
    member = pod("g-0", cpu=1, group="g", annotations={name: "1h"})
    found = warned_of(name, node("n", cpu=4), group("g", minimum=1), member, policy=policy)
    assert found == [f"pod default/g-0: {name} '1h' is not honoured there: put it on a PodGroup"]


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
