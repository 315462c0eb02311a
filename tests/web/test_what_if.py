"""What if: changes that are supposed, decided or simulated in a worker process, and never made."""

import msgspec
import pytest

from fairway.app.explain.situation import Situation
from fairway.app.view.models.what_if import WhatIfRequest
from fairway.app.view.what_if import answer
from fairway.errors import InputError
from fairway.web.asking import RequestRefusedError
from fairway.web.worker import WhatIfWorker
from support.engine import policy
from support.objects import NOW, gang, node, pod, queue

RUNTIME = {"fairway.dev/expected-runtime": "10m"}


def situation(*more):
    objects = [node("n", cpu=4), queue("q"), pod("busy", cpu=4, node="n", annotations=RUNTIME, queue="q"), *more]
    flat = [one for thing in objects for one in (thing if isinstance(thing, list | tuple) else [thing])]
    return Situation(flat, policy(), NOW)


def request(*changes, **fields) -> WhatIfRequest:
    return msgspec.convert({"changes": list(changes), **fields}, WhatIfRequest)


WAITER = pod("waiter", cpu=2, queue="q")


def test_a_node_more_starts_what_waits():
    found = answer(situation(WAITER), request({"kind": "addNodes", "count": 1, "like": "n"}))
    assert [(row.job, row.before, row.after) for row in found.jobs] == [("default/waiter", "waiting", "starting")]
    assert found.sentence == "1 job more would start."
    assert (found.before.waiting, found.after.waiting) == (1, 0)


def test_a_simulation_says_when():
    found = answer(situation(WAITER), request({"kind": "addNodes", "count": 1, "like": "n"}, mode="simulate"))
    (row,) = found.jobs
    assert row.earlier_seconds == pytest.approx(600, abs=5)
    assert "would start earlier (at most by 10m)" in found.sentence
    assert found.complete


@pytest.mark.parametrize(
    ("change", "job"),
    [
        ({"kind": "submitForm", "name": "f", "requests": {"cpu": "1"}, "pods": 2, "queue": "q"}, "default/f"),
        ({"kind": "cancelJob", "job": "default/waiter"}, "default/waiter"),
        ({"kind": "removeNodes", "nodes": ["n"]}, "default/busy"),
        ({"kind": "queueCapability", "queue": "q", "capability": {"cpu": "5"}}, None),
        ({"kind": "queueWeight", "queue": "q", "weight": 5}, None),
        ({"kind": "queueDeserved", "queue": "q", "deserved": {"cpu": "2"}}, None),
        ({"kind": "namespaceWeight", "namespace": "default", "weight": 5}, None),
        ({"kind": "addNodes", "count": 2, "allocatable": {"cpu": "8"}}, "default/waiter"),
        ({"kind": "policy", "text": "actions: allocate"}, None),
        (
            {
                "kind": "submitManifest",
                "yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: m, namespace: default}\n"
                "spec: {schedulerName: fairway, containers: [{name: c, image: i}]}",
            },
            "default/m",
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("mode", ["decide", "simulate"])
def test_every_change_can_be_supposed_and_none_is_made(change, job, mode):
    asked = situation(WAITER)
    before = dict(asked.objects)
    found = answer(asked, request(change, mode=mode))
    assert job is None or job in [row.job for row in found.jobs]
    assert asked.objects == before
    assert answer(asked, request(change, mode=mode)) == found


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"kind": "queueWeight", "queue": "none", "weight": 1},
            r"changes\[0\]: there is no queue 'none', expected one of q",
        ),
        ({"kind": "addNodes", "count": 1}, "expected `like`"),
        ({"kind": "addNodes", "count": 1, "like": "m"}, "there is no node 'm'"),
        ({"kind": "removeNodes", "nodes": ["m"]}, "there is no node 'm'"),
        ({"kind": "cancelJob", "job": "a/b"}, "there is no job 'a/b'"),
        ({"kind": "submitManifest", "yaml": "a: ["}, r"changes\[0\]"),
        ({"kind": "queueCapability", "queue": "q", "capability": {"cpu": "much"}}, "much"),
        ({"kind": "policy", "text": "actions: dance"}, "dance"),
    ],
)
def test_what_cannot_be_supposed_is_said(change, text):
    with pytest.raises(InputError, match=text):
        answer(situation(), request(change))


def test_the_worker_answers_as_the_function_does_and_keeps_to_its_limits():
    asked, wanted = (
        situation(gang("g", members=2, cpu=3, queue="q")),
        request({"kind": "addNodes", "count": 2, "like": "n"}),
    )
    found = WhatIfWorker().ask(asked, wanted)
    assert msgspec.structs.replace(found, seconds=0.0) == answer(asked, wanted)
    with pytest.raises(RequestRefusedError, match="takes more than") as refused:
        WhatIfWorker(seconds=0.01).ask(asked, wanted)
    assert refused.value.status == 504
    with pytest.raises(RequestRefusedError, match="exceeds the limits of a worker") as refused:
        WhatIfWorker(megabytes=64).ask(asked, wanted)
    assert refused.value.status == 507
