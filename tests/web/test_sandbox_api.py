"""The API of a sandbox as the other commands use it: what it answers, and what it refuses."""

import json
import re

import pytest

from fairway.app.sandbox.client import Client
from fairway.app.view.models.commands import ObjectName
from fairway.errors import InputError
from fairway.web.answers import requests
from fairway.web.contract import MAX_BYTES
from fairway.web.sandbox_page import SandboxPage
from support.objects import gang, manifest, node, pod, queue
from support.sandboxes import after, made
from support.web_pages import TOKEN, AskedPage, served


@pytest.fixture
def sandbox():
    made_one = after(made(node("n", cpu=4), queue("q"), gang("g", members=2, cpu=1), pod("w", cpu=9)), 5)
    yield made_one
    made_one.close()


@pytest.fixture
def page(sandbox):
    return AskedPage(sandbox)


@pytest.fixture
def client(sandbox):
    with served(sandbox) as page:
        yield Client(page.url, TOKEN)


def test_what_a_client_sees(client):
    assert [(job.job, job.phase) for job in client.jobs()] == [("default/w", "waiting"), ("default/g", "running")]
    frame = client.frame()
    assert (frame.nodes, frame.fill["cpu"], len(frame.running), len(frame.waiting)) == (1, 0.5, 1, 1)
    assert [(use.name, use.used["cpu"], use.pods) for use in client.nodes()] == [("n", "2", 2)]
    assert [(event.kind, event.job) for event in client.events()] == [("placed", "default/g")]
    (found,) = client.objects("pods", "default", "w")
    assert (found["kind"], found["metadata"]["name"]) == ("Pod", "w")
    assert client.explain("w").reason == "NeverFits"
    assert client.order("w").position == 1
    assert [row.job for row in client.waiting()] == ["default/w"]


def test_what_a_client_does(client, sandbox):
    results = client.apply([queue("r"), pod("new", queue="r", cpu=1)])
    assert [(one.object, one.result) for one in results] == [("Queue r", "created"), ("Pod default/new", "created")]
    after(sandbox, 6)
    assert [job.job for job in client.jobs() if job.phase in ("starting", "running")] == ["default/new", "default/g"]
    gone = client.delete([ObjectName(kind="Job", name="g"), ObjectName(kind="Pod", name="new")])
    assert [one.object for one in gone][-1] == "Pod default/new"
    after(sandbox, 7)
    assert client.nodes()[0].pods == 0


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}], r"objects\[0\]: spec: "),
        ([{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "Bad Name"}, "spec": {"containers": []}}], "name"),
        ([{"kind": "Secret", "apiVersion": "v1"}], "expected one object of a supported kind"),
        ([{}], "kind"),
    ],
)
def test_what_is_wrong_with_an_object_is_said(page, objects, message):
    status, answer = page.post("apply", {"objects": objects})
    assert status == 422
    assert re.search(message, answer["error"]), answer


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "", 404, "there is nothing here, see /api/v1/openapi.json"),
        ("GET", "secrets", 404, "there is nothing here"),
        ("GET", "objects/Unknown", 404, "unknown kind"),
        ("GET", "objects/Pod/nobody", 404, "there is no Pod nobody"),
        ("GET", "objects/a/b/c/d", 404, "expected objects/KIND"),
        ("GET", "explanations/nobody", 422, "nobody: there is no such job"),
        ("GET", "jobs/default/nobody", 404, "there is no such job"),
        ("GET", "manifests/default/nobody", 404, "no longer exist"),
        ("GET", "orders/default/g", 422, "default/g is not pending"),
        ("GET", "nodes/m", 404, "m: there is no such node"),
        ("GET", "jobs?queues=a", 422, "queues: there is no such parameter, expected queue"),
        ("GET", "jobs?limit=5000", 422, "limit=5000: expected a number from 0 to 1000"),
        ("GET", "jobs?limit=x", 422, "limit=x: expected a number"),
        ("GET", "jobs?limit=1&limit=2", 422, "limit: repeated 2 times"),
        ("GET", "jobs?state=gone", 422, "expected one of waiting"),
        ("GET", "jobs?facets=maybe", 422, "expected true or false"),
        ("GET", "nodes/fit?request=cpu", 422, "expected resource=amount"),
        ("GET", "nodes/fit?request=cpu=much", 422, "much"),
        ("GET", "timeline?from=noon", 422, "noon"),
        ("GET", "timeline?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", 422, "is after to=2026-01-01"),
        ("GET", "starts/nobody", 422, "nobody: there is no such job"),
        ("GET", "starts/default/g?bounds=perhaps", 422, "expected true or false"),
    ],
)
def test_what_is_not_there(page, method, path, status, message):
    found, answer = page.ask(method, path)
    assert (found, message in answer["error"]) == (status, True), answer


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"objects": 3}', b'{"objects": [], "more": 1}', b"[" * 100_000])
def test_a_body_that_cannot_be_read(page, body):
    status, answer = page.ask("POST", "apply", body)
    assert status == 422
    assert answer["error"].startswith("the request cannot be read")


def test_what_is_too_large_is_turned_away(page, monkeypatch):
    status, answer = page.ask("POST", "apply", b" " * (MAX_BYTES + 1))
    assert (status, answer["error"]) == (413, f"the body has {MAX_BYTES + 1} bytes, expected at most {MAX_BYTES}")
    status, answer = page.ask("POST", "pace", b" " * 100_000)
    assert (status, answer["error"]) == (413, "the body has 100000 bytes, expected at most 65536")
    monkeypatch.setattr(requests, "MAX_OBJECTS", 1)
    status, answer = page.post("apply", {"objects": [manifest(pod("a")), manifest(pod("b"))]})
    assert (status, answer["error"]) == (422, "2 objects in one request, expected at most 1")


def test_a_fault_of_ours_is_said_to_be_one(page, sandbox, monkeypatch):
    monkeypatch.setattr(sandbox, "nodes", lambda: 1 // 0)
    status, answer = page.ask("GET", "lists/nodes")
    assert status == 500
    assert "internal error" in answer["error"]
    assert "ZeroDivisionError" in page.lines[-1]["traceback"]


def test_an_answer_that_cannot_be_written_is_an_error_of_ours_too(page, sandbox, monkeypatch):
    monkeypatch.setattr(sandbox, "nodes", lambda: [object()])
    status, answer = page.ask("GET", "lists/nodes")
    assert (status, "internal error" in answer["error"]) == (500, True)
    assert "TypeError" in page.lines[-1]["traceback"]


def test_no_sandbox_and_no_such_address():
    with pytest.raises(InputError, match=r"no sandbox answers at .*start one with `fairway sandbox`"):
        Client("http://127.0.0.1:1").jobs()
    for url in ("ftp://x:1", "http://x", "nonsense", "http://x:port"):
        with pytest.raises(InputError, match="expected an address such as"):
            Client(url)


def test_a_port_that_is_taken(sandbox):
    with (
        served(sandbox) as page,
        pytest.raises(InputError, match="another sandbox may run, or choose a port with --port"),
    ):
        SandboxPage(sandbox, page.server.port, TOKEN)


def test_the_pace_is_set_only_where_there_is_one(page):
    assert page.post("pace", {"speed": 2}).status == 404


def test_json_is_what_is_answered(page):
    page.shown.watch.catch_up()
    answer = page.client.get("/api/v1/jobs")
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.content)["total"] == 2
