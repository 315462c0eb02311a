"""What users may do to jobs: in a sandbox, and which requests are made as them on a cluster."""

import asyncio
import threading
from typing import Any, cast

import pytest

from fairway.api.manifests import parse_object
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.jobs import JobActionRequest
from fairway.app.view.watch import ClusterWatch
from fairway.errors import ApiError, InputError
from fairway.kube.http.client import ApiClient
from fairway.kube.server.connection import Connection
from fairway.state.cluster import Upserted
from fairway.web.asking import RequestRefusedError, Viewer
from fairway.web.cluster_actions import GROUPS, ApiWrite, ClusterActions, _sent
from fairway.web.sandbox_page import SandboxActions
from support.engine import policy
from support.objects import NOW, gang, manifest, node, pod, priority_class, queue
from support.sandboxes import after, made
from support.web_pages import AskedPage

USER = Viewer("user", token="a-token")


@pytest.fixture
def page():
    sandbox = after(made(node("n", cpu=4), queue("q"), gang("waits", members=2, cpu=3, queue="q"), pod("runs")), 5)
    asked = AskedPage(sandbox)
    asked.shown.actions = SandboxActions(sandbox)
    asked.sandbox = sandbox  # type: ignore[attr-defined]
    yield asked
    sandbox.close()


def act(page, job, **request):
    return page.post(f"actions/default/{job}", request)


def test_a_job_of_a_sandbox_is_held_and_released(page):
    assert page.get("jobs/default/waits").document["allowed"] == ["cancel", "reprioritise", "hold"]
    assert page.get("jobs/default/runs").document["allowed"] == ["cancel"]
    assert act(page, "waits", action="hold").document["text"] == "default/waits: held"
    after(page.sandbox, 10)
    found = page.get("jobs/default/waits").document
    assert "it is held (annotation fairway.dev/hold of PodGroup default/waits)" in found["sentence"]
    assert (found["job"]["held"], found["allowed"]) == (True, ["cancel", "reprioritise", "release"])
    page.sandbox.apply([node("m", cpu=64)])
    after(page.sandbox, 20)
    assert page.get("jobs/default/waits").document["job"]["state"] == "waiting"
    assert act(page, "waits", action="release").document["text"] == "default/waits: released"
    after(page.sandbox, 30)
    assert page.get("jobs/default/waits").document["job"]["state"] == "running"


def test_jobs_of_controllers_and_lone_pods_of_a_sandbox_are_held_and_cancelled(page):
    page.sandbox.apply([pod("lone", cpu=9), *(pod(f"j-{i}", owner="Job/j", cpu=9) for i in range(2))])
    after(page.sandbox, 10)
    for job, pods in (("lone", 1), ("job/j", 2)):
        assert page.get(f"jobs/default/{job}").document["allowed"] == ["cancel", "hold"]
        later = "2 pods that wait are held; pods that its controller makes later are not"
        answer = act(page, job, action="hold")
        assert (answer.status, answer.document["text"]) == (
            200, f"default/{job}: {'held' if pods == 1 else later}",
        )  # fmt: skip
        after(page.sandbox, 20)
        found = page.get(f"jobs/default/{job}").document
        assert (found["job"]["held"], found["allowed"]) == (True, ["cancel", "release"])
        noun = "1 pod is" if pods == 1 else f"{pods} pods are"
        assert f"{noun} held (annotation fairway.dev/hold)" in found["sentence"]
        assert act(page, job, action="release").status == 200
        assert act(page, job, action="cancel").status == 200
    assert act(page, "runs", action="cancel").status == 200
    after(page.sandbox, 30)
    outcomes = {row["job"]: row.get("outcome") for row in page.get("jobs?state=finished").document["rows"]}
    assert outcomes == dict.fromkeys(("default/lone", "default/job/j", "default/runs"), "deleted")


@pytest.mark.parametrize(
    ("job", "request_", "status", "text"),
    [
        ("runs", {"action": "hold"}, 422, "none of its pods is pending"),
        ("waits", {"action": "release"}, 422, "is not held"),
        ("none", {"action": "hold"}, 404, "there is no such job"),
        ("waits", {"action": "reprioritise"}, 422, "needs `priorityClass`"),
        ("runs", {"action": "reprioritise", "priorityClass": "x"}, 404, "there is no PodGroup"),
        ("waits", {"action": "explode"}, 422, "cannot be read"),
        ("waits", {"action": "hold", "more": 1}, 422, "cannot be read"),
    ],
)
def test_actions_that_cannot_be_taken(page, job, request_, status, text):
    answer = act(page, job, **request_)
    assert (answer.status, text in answer.document["error"]) == (status, True), answer


def test_without_actions_nothing_is_done(page):
    page.shown.actions = None
    answer = act(page, "waits", action="cancel")
    assert (answer.status, "--allow-actions" in answer.document["error"]) == (403, True)
    assert page.get("jobs/default/waits").document["allowed"] == []


class Requests(ClusterActions):
    """Notes what would be sent."""

    def __init__(self, watch: ClusterWatch) -> None:
        super().__init__(Connection("https://nowhere.invalid"), watch)
        self.sent: list[tuple[str, str, Any]] = []
        self.refused = "nothing"

    async def _send(self, viewer, requests):
        assert viewer.token
        if any(self.refused in write.paths[0] for write in requests):
            raise RequestRefusedError(403, "refused")
        self.sent += requests


@pytest.fixture
def cluster():
    def owned(name, kind, owner, **labels):
        thing = manifest(pod(name, "a", owner=f"Job/{owner}", cpu=9, labels=labels))
        thing["metadata"]["ownerReferences"][0].update(kind=kind[1], apiVersion=kind[0])
        return parse_object(thing)

    mirror = Mirror(policy(), NOW)
    things = [
        node("n", cpu=4),
        queue("default"),
        owned("j-0", ("batch/v1", "Job"), "j"),
        owned("s-0", ("batch/v1", "Job"), "s-child", **{"jobset.sigs.k8s.io/jobset-name": "s"}),
        owned("v-0", ("batch.volcano.sh/v1alpha1", "Job"), "v"),
        owned("r-0", ("apps/v1", "ReplicaSet"), "r"),
        pod("lone", "a", cpu=9),
        pod("gated", "a", cpu=9, gates=["fairway.dev/held", "other.dev/gate"]),
        *gang("g", "a", members=2, cpu=9),
    ]
    mirror.apply([Upserted(thing) for thing in things], NOW)
    actions = Requests(ClusterWatch(mirror, lambda: NOW))
    actions.loop = asyncio.new_event_loop()
    thread = threading.Thread(target=actions.loop.run_forever, daemon=True)
    thread.start()
    yield actions
    actions.loop.call_soon_threadsafe(actions.loop.stop)
    thread.join(5)
    actions.loop.close()


def job_named(actions, part):
    with actions._watch.mirror() as mirror:
        return next(job.key for job in mirror.state.jobs() if part in {task.key for task in job.tasks} | {job.key})


def hold_of(actions):
    """The paths that the last action was sent to, and what it wrote."""
    sent, actions.sent = actions.sent, []
    assert {write.method for write in sent} == {"PATCH"}
    values = {write.body["metadata"]["annotations"]["fairway.dev/hold"] for write in sent}
    assert len(values) == 1
    return [write.paths[0] for write in sent], values.pop()


def test_what_is_held_is_the_group_or_each_pod(cluster):
    pods = "/api/v1/namespaces/a/pods"
    for name, path in (
        ("a/j-0", f"{pods}/j-0"), ("a/v-0", f"{pods}/v-0"), ("a/r-0", f"{pods}/r-0"), ("a/lone", f"{pods}/lone"),
        ("a/g", "/apis/scheduling.volcano.sh/v1beta1/namespaces/a/podgroups/g"),
    ):  # fmt: skip
        said = cluster.act(USER, job_named(cluster, name), JobActionRequest("hold"))
        assert hold_of(cluster) == ([path], "true")
        assert ("its controller makes later are not" in said) == (name in ("a/j-0", "a/v-0")), said


def test_a_group_that_was_not_seen_yet_is_held_before_its_pods(cluster):
    group, *pods = gang("late", "a", members=2, cpu=9)
    with cluster._watch.mirror() as mirror:
        mirror.apply([Upserted(thing) for thing in pods], NOW)
    cluster.act(USER, "a/late", JobActionRequest("hold"))
    assert hold_of(cluster) == (["/apis/scheduling.volcano.sh/v1beta1/namespaces/a/podgroups/late"], "true")
    cluster.refused = "podgroups"
    cluster.act(USER, "a/late", JobActionRequest("hold"))
    assert hold_of(cluster) == ([f"/api/v1/namespaces/a/pods/late-{number}" for number in range(2)], "true")
    with cluster._watch.mirror() as mirror:
        mirror.apply([Upserted(group)], NOW)
    with pytest.raises(RequestRefusedError, match="refused"):
        cluster.act(USER, "a/late", JobActionRequest("hold"))


def test_a_class_above_the_pods_own_is_said_to_have_no_effect(cluster):
    with cluster._watch.mirror() as mirror:
        mirror.apply([Upserted(priority_class("high", 7)), Upserted(priority_class("low", -7))], NOW)
    said = cluster.act(USER, "a/g", JobActionRequest("reprioritise", priority_class="low"))
    assert said == "a/g: its priority class is low now"
    said = cluster.act(USER, "a/g", JobActionRequest("reprioritise", priority_class="high"))
    assert "high now, but it counts as 0, the highest priority of its own pods" in said
    assert [write.body for write in cluster.sent] == [{"spec": {"priorityClassName": name}} for name in ("low", "high")]


def test_a_new_priority_of_a_sandbox_takes_effect(page):
    page.sandbox.apply([priority_class("high", 7)])
    said = act(page, "waits", action="reprioritise", priorityClass="high").document["text"]
    assert said == "default/waits: its priority class is high now, and that of its pods that wait"
    after(page.sandbox, 10)
    assert page.get("jobs/default/waits").document["job"]["priority"] == 7


def test_what_holds_a_job_is_taken_off_it(cluster):
    with cluster._watch.mirror() as mirror:
        things = gang("g", "a", members=2, cpu=9)
        notes = {"fairway.dev/hold": "true"}
        for thing in (things[0], things[1]):  # the group, and one of its pods besides
            document = manifest(thing)
            document["metadata"]["annotations"] = {**document["metadata"].get("annotations", {}), **notes}
            mirror.apply([Upserted(parse_object(document))], NOW)
    cluster.act(USER, "a/g", JobActionRequest("release"))
    paths, value = hold_of(cluster)
    assert value is None
    assert paths == ["/apis/scheduling.volcano.sh/v1beta1/namespaces/a/podgroups/g", "/api/v1/namespaces/a/pods/g-0"]


def test_gates_of_others_are_not_the_page_s_to_take(cluster):
    with pytest.raises(RequestRefusedError, match="is not held"):
        cluster.act(USER, "a/gated", JobActionRequest("release"))
    with pytest.raises(RequestRefusedError, match="none of its pods is pending"):
        cluster.act(USER, "a/gated", JobActionRequest("hold"))


def test_what_is_cancelled_is_not_made_again(cluster):
    background = {"propagationPolicy": "Background"}
    cluster.act(USER, job_named(cluster, "a/j-0"), JobActionRequest("cancel"))
    cluster.act(USER, job_named(cluster, "a/v-0"), JobActionRequest("cancel"))
    cluster.act(USER, "a/g", JobActionRequest("cancel"))
    assert cluster.sent == [
        ("DELETE", ("/apis/batch/v1/namespaces/a/jobs/j",), background),
        ("DELETE", ("/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs/v",), background),
        ("DELETE", tuple(f"/apis/{version}/namespaces/a/podgroups/g" for version in GROUPS), None),
        ("DELETE", ("/api/v1/namespaces/a/pods/g-0",), None),
        ("DELETE", ("/api/v1/namespaces/a/pods/g-1",), None),
    ]
    with pytest.raises(RequestRefusedError, match="would make them again"):
        cluster.act(USER, job_named(cluster, "a/r-0"), JobActionRequest("cancel"))


def test_without_a_token_of_one_s_own_nothing_is_sent(cluster):
    with pytest.raises(RequestRefusedError) as refused:
        cluster.act(Viewer("you"), "a/lone", JobActionRequest("cancel"))
    assert (refused.value.status, cluster.sent) == (403, [])


class Refusing:
    """A server that answers by path."""

    def __init__(self, statuses):
        self.statuses, self.asked = statuses, []

    async def request(self, method, path, body, content_type):
        self.asked.append(path)
        status = self.statuses[path]
        if status != 200:
            raise ApiError(status, "Refused", f"{method} {path}")


@pytest.mark.parametrize(
    ("statuses", "asked", "raised"),
    [
        ([200, 200], 1, None),
        ([404, 200], 2, None),
        ([403, 200], 2, None),
        ([404, 403], 2, 403),
        ([404, 404], 2, 404),
        ([422, 200], 1, 422),
    ],
)
def test_a_group_is_looked_for_under_each_of_its_versions(statuses, asked, raised):
    server = Refusing(dict(zip(("/a", "/b"), statuses, strict=True)))
    write = ApiWrite("PATCH", ("/a", "/b"), {})
    if raised is None:
        asyncio.run(_sent(cast(ApiClient, server), write))
    else:
        with pytest.raises(ApiError) as refused:
            asyncio.run(_sent(cast(ApiClient, server), write))
        assert refused.value.status == raised
    assert len(server.asked) == asked


def test_settings_of_the_page_that_contradict_each_other(tmp_path):
    from fairway.app.live.settings import read_settings
    from fairway.web.live_process import page_settings

    with pytest.raises(InputError, match="require web"):
        read_settings(None, {"allowActions": True})
    with pytest.raises(InputError, match="must be set together"):
        read_settings(None, {"web": "127.0.0.1:7333", "webCert": "x"})
    with pytest.raises(InputError, match="expected at most one"):
        read_settings(None, {"web": "127.0.0.1:7333", "feedSocket": "x"})
    with pytest.raises(InputError, match="webAccess cluster"):
        page_settings("127.0.0.1:7333", allow_actions=True)
    with pytest.raises(InputError, match="webAccess cluster"):
        page_settings("127.0.0.1:7333", hosts=("x",))
    with pytest.raises(InputError, match="not a loopback address"):
        page_settings("10.0.0.1:7333", "token")
    with pytest.raises(InputError, match="must be set together"):
        page_settings("10.0.0.1:7333", certificate="x")
