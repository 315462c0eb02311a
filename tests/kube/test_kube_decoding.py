"""From bytes to objects (spec K1, K2, K4): what is read, what is left out and named, what is kept once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway.api.kinds import KINDS, OTHER_FORMS
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup, Queue
from fairway.errors import ApiError
from fairway.kube.reading.decoding import ObjectDecoder, Sharing, is_kept
from fairway.kube.reading.served import ServedKind


def decoder(name: str, version: str) -> ObjectDecoder:
    kind = next(kind for kind in (*KINDS, *OTHER_FORMS) if kind.name == name and version in kind.api_versions)
    return ObjectDecoder(ServedKind(kind, version, name.lower() + "s"))


def pod_data(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "a", "uid": f"uid-{name}", "resourceVersion": "7"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "fairway", **spec},
    }


def line(kind: str, thing: object) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode()


def test_an_event_of_a_watch_is_an_object_and_its_version() -> None:
    event = decoder("Pod", "v1").event(line("ADDED", pod_data()))
    assert isinstance(event.thing, Pod)
    assert (event.type, event.version, event.thing.metadata.name) == ("ADDED", "7", "p")


@pytest.mark.parametrize("kind", ["Pod", "Node"])
@pytest.mark.parametrize("ends", [True, False])
def test_a_bookmark_carries_a_version_and_may_end_a_list(kind: str, ends: bool) -> None:
    meta = {"resourceVersion": "42", "annotations": {"k8s.io/initial-events-end": "true"} if ends else {}}
    event = decoder(kind, "v1").event(line("BOOKMARK", {"kind": kind, "metadata": meta}))
    assert (event.type, event.thing, event.version, event.ends_list) == ("BOOKMARK", None, "42", ends)


@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_an_error_event_is_an_error_with_the_servers_words(kind: str) -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (2)"}
    with pytest.raises(ApiError, match="too old resource version") as error:
        decoder(kind, "v1").event(line("ERROR", status))
    assert error.value.status == 410


def test_a_line_that_is_no_event_is_an_error() -> None:
    with pytest.raises(ApiError, match="not a line of a watch"):
        decoder("Pod", "v1").event(b'{"type": "ADDED", "obj')


def test_K2_an_object_with_a_field_of_the_wrong_type_is_left_out_and_named() -> None:
    bad = pod_data("bad", terminationGracePeriodSeconds="soon")
    event = decoder("Pod", "v1").event(line("ADDED", bad))
    assert (event.thing, event.version) == (None, "7")
    assert event.unreadable is not None
    assert event.unreadable.key == ("Pod", "a", "bad")
    assert event.unreadable.why.startswith("spec.terminationGracePeriodSeconds: ")


def test_K2_one_bad_object_in_a_page_leaves_the_others() -> None:
    body = {
        "kind": "PodList",
        "metadata": {"resourceVersion": "9", "continue": "next"},
        "items": [pod_data("x"), {"spec": 3}, pod_data("y")],
    }
    page = decoder("Pod", "v1").page(json.dumps(body).encode())
    assert [thing.metadata.name for thing in page.things] == ["x", "y"]
    assert len(page.unreadable) == 1
    assert (page.version, page.more) == ("9", "next")


def test_a_page_without_items_is_an_empty_list() -> None:
    page = decoder("Pod", "v1").page(b'{"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": null}')
    assert (page.things, page.more) == ([], "")


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"null",
        b"<html>hello</html>",
        b'{"metadata": {"resourceVersion": "9"}, "items": []}',
        b'{"kind": "PodList", "metadata": {}, "items": []}',
        b'{"kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": []}',
        b'{"kind": "Status", "metadata": {"resourceVersion": "9"}, "status": "Success"}',
    ],
)
def test_an_answer_that_is_no_list_of_the_kind_is_not_an_empty_list(body: bytes) -> None:
    """All objects of the kind would count as gone."""
    with pytest.raises(ApiError):
        decoder("Pod", "v1").page(body)


def test_numbers_that_mean_quantities_are_read_as_kubernetes_reads_them() -> None:
    queue = {"metadata": {"name": "q"}, "spec": {"capability": {"cpu": 4, "memory": "1Gi"}}}
    thing = decoder("Queue", "scheduling.volcano.sh/v1beta1").event(line("ADDED", queue)).thing
    assert isinstance(thing, Queue)
    assert thing.spec.capability == {"cpu": "4", "memory": "1Gi"}


def test_a_custom_resource_that_no_server_code_checked_is_checked_here() -> None:
    queue = {"metadata": {"name": "q"}, "spec": {"capability": {"cpu": "many"}}}
    event = decoder("Queue", "scheduling.volcano.sh/v1beta1").event(line("ADDED", queue))
    assert event.thing is None
    assert event.unreadable is not None
    assert "many" in event.unreadable.why


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        ("scheduling.volcano.sh/v1beta1", {"minMember": 3}),
        ("scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": 3}}}),
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": 3}),
    ],
)
def test_pod_groups_of_three_apis_are_one_kind(version: str, spec: dict[str, Any]) -> None:
    data = {"metadata": {"name": "g", "namespace": "a"}, "spec": spec}
    reader = decoder("PodGroup", version)
    watched = reader.event(line("ADDED", data)).thing
    body = {"kind": "PodGroupList", "metadata": {"resourceVersion": "9"}, "items": [data]}
    listed = reader.page(json.dumps(body).encode()).things[0]
    assert isinstance(watched, PodGroup)
    assert watched == listed
    assert watched.spec.min_member == 3


def as_pod(**spec: Any) -> Pod:
    thing = decoder("Pod", "v1").event(line("ADDED", pod_data(**spec))).thing
    assert isinstance(thing, Pod)
    return thing


def test_K4_pods_of_others_count_once_they_have_a_node_and_finished_ones_never() -> None:
    ours = {"fairway"}
    assert is_kept(as_pod(), ours)
    assert not is_kept(as_pod(schedulerName="other"), ours)
    assert is_kept(as_pod(schedulerName="other", nodeName="n1"), ours)
    data = {**pod_data(nodeName="n1"), "status": {"phase": "Succeeded"}}
    finished = decoder("Pod", "v1").event(line("MODIFIED", data)).thing
    assert finished is not None
    assert not is_kept(finished, ours)


@pytest.mark.parametrize(
    ("phase", "scheduler", "annotations", "kept"),
    [
        ("Succeeded", "fairway", {}, False),
        ("Succeeded", "fairway", {"scheduling.k8s.io/group-name": "g"}, True),
        ("Succeeded", "fairway", {"fairway.dev/min-available": "2"}, True),
        ("Succeeded", "other", {"scheduling.k8s.io/group-name": "g"}, False),
        ("Failed", "fairway", {"scheduling.k8s.io/group-name": "g"}, True),
        ("Failed", "another", {"scheduling.k8s.io/group-name": "g"}, False),
        ("Failed", "fairway", {"fairway.dev/min-available": "2"}, False),
    ],
)
def test_K4_a_pod_that_succeeded_counts_in_its_own_gang_and_nowhere_else(
    phase: str, scheduler: str, annotations: dict[str, str], kept: bool
) -> None:
    data = {**pod_data(nodeName="n1", schedulerName=scheduler), "status": {"phase": phase}}
    data["metadata"]["annotations"] = annotations
    thing = decoder("Pod", "v1").event(line("MODIFIED", data)).thing
    assert thing is not None
    assert is_kept(thing, {"fairway"}) is kept


def test_K4_what_a_template_gives_its_pods_is_kept_once() -> None:
    sharing = Sharing()
    volumes = [{"name": "kube-api-access-x1"}, {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    one = sharing.slim(as_pod(name="a", volumes=volumes))
    two = sharing.slim(as_pod(name="b", volumes=[{"name": "kube-api-access-x2"}, volumes[1]]))
    bound = sharing.slim(as_pod(name="c", volumes=volumes, nodeName="n1"))
    assert isinstance(one, Pod)
    assert isinstance(two, Pod)
    assert isinstance(bound, Pod)
    assert one.spec is two.spec
    assert bound.spec.containers is one.spec.containers
    assert (bound.spec.node_name, one.spec.node_name) == ("n1", "")
    assert [volume.name for volume in one.spec.volumes] == ["data"]
    assert one.metadata.namespace is two.metadata.namespace


def test_K4_a_slim_pod_is_the_same_pod_but_for_what_no_rule_reads() -> None:
    data = pod_data(nodeName="n1", priority=3, tolerations=[{"key": "k"}])
    data["metadata"] |= {
        "labels": {"app": "x"},
        "annotations": {"fairway.dev/queue": "q", "kubectl.kubernetes.io/last-applied-configuration": "{...}"},
        "ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True, "apiVersion": "batch/v1"}],
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["f"],
    }
    reader = decoder("Pod", "v1")
    slim = Sharing().slim(reader.event(line("ADDED", data)).thing)  # type: ignore[arg-type]
    del data["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert slim == reader.event(line("ADDED", data)).thing
