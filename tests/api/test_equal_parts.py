"""Parts of pods that are equal are kept once, and the pods are what they were."""

import io
import json

from benchmarks.pods import pod_list

from fairway.api.manifests import MAX_SHARED, SharedParts, load, parse_object
from fairway.api.pods import Pod
from support import objects as make


def pods(count: int) -> list[Pod]:
    return [thing for thing in load(["-"], stdin=io.BytesIO(pod_list(count))).objects if isinstance(thing, Pod)]


def test_pods_are_as_they_would_be_one_by_one() -> None:
    items = json.loads(pod_list(60))["items"]
    alone = [parse_object({"apiVersion": "v1", "kind": "Pod", **item}) for item in items]
    assert pods(60) == alone


def test_what_a_template_gives_its_pods_is_kept_once() -> None:
    found = pods(60)
    assert len({id(pod.spec.tolerations) for pod in found}) == len({repr(pod.spec.tolerations) for pod in found}) == 1
    assert len({id(pod.spec.containers) for pod in found}) == len({repr(pod.spec.containers) for pod in found}) == 4


def test_fields_that_look_the_same_are_not_mistaken_for_each_other() -> None:
    pod = make.pod("p", cpu=1)
    assert isinstance(pod, Pod)
    shared = SharedParts().pod(pod)
    assert shared == pod


def test_what_is_remembered_is_bounded() -> None:
    parts = SharedParts()
    for count in range(MAX_SHARED + 10):
        assert parts._part("selector", {"n": str(count)}) == {"n": str(count)}
    assert len(parts._parts) <= MAX_SHARED
