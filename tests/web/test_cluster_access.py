"""Who may see the page of a live cluster: what its API server says of tokens, kept for a short time."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from fairway.errors import NoAnswerError
from fairway.web import cluster_access
from fairway.web.asking import RequestRefusedError
from fairway.web.cluster_access import AT_ONCE, KEPT, MAX_SESSIONS_OF_ONE, MAX_TOKEN, SESSION, ClusterAccess

USERS = {
    "admin-token": {"username": "admin", "groups": ["system:masters"]},
    "tenant-token": {"username": "tenant", "groups": ["tenants"], "extra": {"scope": ["x"]}},
    "blind-token": {"username": "blind"},
}


class ReviewServer:
    """Answers reviews as an API server with three users does."""

    def __init__(self):
        self.asked: list[tuple[str, str]] = []
        self.away = False

    async def request(self, method, path, body):
        if self.away:
            raise NoAnswerError("no answer")
        assert method == "POST"
        spec = json.loads(msgspec.json.encode(body))["spec"]
        if path == "/apis/authentication.k8s.io/v1/tokenreviews":
            self.asked.append(("token", spec["token"]))
            user = USERS.get(spec["token"])
            return json.dumps({"status": {"authenticated": user is not None, "user": user or {}}}).encode()
        assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        wanted = spec["resourceAttributes"]
        self.asked.append((spec["user"], f"{wanted['resource']} {wanted['namespace']}".strip()))
        allowed = spec["user"] == "admin" or (
            spec["user"] == "tenant" and (wanted["resource"], wanted["namespace"]) in (("pods", "mine"), ("queues", ""))
        )
        return json.dumps({"status": {"allowed": allowed}}).encode()


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def stage():
    server, clock = ReviewServer(), Clock()
    client: Any = server
    return server, clock, ClusterAccess(client, lambda: ["mine", "theirs"], clock)


def run(work):
    return asyncio.run(work)


def test_a_user_sees_what_kubectl_would_show(stage):
    _, _, access = stage
    admin = run(access.viewer("admin-token", None))
    assert (admin.name, admin.namespaces, admin.nodes, admin.queues) == ("admin", None, True, True)
    tenant = run(access.viewer("tenant-token", None))
    assert (tenant.name, tenant.namespaces, tenant.nodes, tenant.queues) == ("tenant", frozenset({"mine"}), False, True)
    blind = run(access.viewer("blind-token", None))
    assert (blind.namespaces, blind.nodes, blind.queues) == (frozenset(), False, False)


def test_a_namespace_with_its_first_job_is_shown_at_once():
    server, names = ReviewServer(), ["theirs"]
    client: Any = server
    access = ClusterAccess(client, lambda: names, Clock())
    assert run(access.viewer("tenant-token", None)).namespaces == frozenset()
    names.append("mine")
    asked = len(server.asked)
    assert run(access.viewer("tenant-token", None)).namespaces == frozenset({"mine"})
    assert run(access.viewer("tenant-token", None)).namespaces == frozenset({"mine"})
    assert server.asked[asked:] == [("tenant", "pods mine")]  # nothing that was known is asked for again


@pytest.mark.parametrize("token", [None, "", "wrong", "admin-token "])
def test_a_token_that_the_server_does_not_know(stage, token):
    with pytest.raises(RequestRefusedError) as refused:
        run(stage[2].viewer(token, None))
    assert refused.value.status == 401
    with pytest.raises(RequestRefusedError):
        run(stage[2].login(token or ""))


def test_answers_are_kept_for_a_short_time_only(stage):
    server, clock, access = stage
    run(access.viewer("tenant-token", None))
    asked = len(server.asked)
    clock.now = KEPT - 1
    run(access.viewer("tenant-token", None))
    assert len(server.asked) == asked
    clock.now = KEPT + 1
    USERS["tenant-token"], before = None, USERS["tenant-token"]
    try:
        with pytest.raises(RequestRefusedError):
            run(access.viewer("tenant-token", None))
    finally:
        USERS["tenant-token"] = before


def test_a_cookie_stands_for_its_token_until_it_ends(stage):
    _, clock, access = stage
    cookie = run(access.login("tenant-token"))
    assert "tenant" not in cookie
    assert run(access.viewer(None, cookie)).name == "tenant"
    assert run(access.viewer("admin-token", cookie)).name == "admin"
    with pytest.raises(RequestRefusedError):
        run(access.viewer(None, cookie[:-1]))
    clock.now = SESSION + 1
    with pytest.raises(RequestRefusedError):
        run(access.viewer(None, cookie))


def test_a_cookie_stands_for_nothing_after_a_logout(stage):
    _, _, access = stage
    cookie, other = run(access.login("tenant-token")), run(access.login("tenant-token"))
    run(access.logout(cookie))
    run(access.logout("no-such-cookie"))
    run(access.logout(None))
    with pytest.raises(RequestRefusedError):
        run(access.viewer(None, cookie))
    assert run(access.viewer(None, other)).name == "tenant"


def test_a_thousand_logins_of_one_user_end_no_session_of_another(stage):
    """They once pushed out all others: sessions were limited in total only."""
    _, _, access = stage

    async def logins():
        others = [await access.login("tenant-token"), await access.login("blind-token")]
        own = [await access.login("admin-token") for _ in range(1_001)]
        return others, own

    others, own = run(logins())
    assert [run(access.viewer(None, cookie)).name for cookie in others] == ["tenant", "blind"]
    for cookie in own[-MAX_SESSIONS_OF_ONE:]:
        assert run(access.viewer(None, cookie)).name == "admin"
    with pytest.raises(RequestRefusedError):
        run(access.viewer(None, own[-MAX_SESSIONS_OF_ONE - 1]))


def test_users_without_a_name_count_as_one(stage, monkeypatch):
    _, _, access = stage
    monkeypatch.setitem(USERS, "nameless-1", {"username": ""})
    monkeypatch.setitem(USERS, "nameless-2", {"username": ""})

    async def logins():
        other = await access.login("tenant-token")
        for number in range(2 * MAX_SESSIONS_OF_ONE):
            await access.login(f"nameless-{number % 2 + 1}")
        return other

    assert run(access.viewer(None, run(logins()))).name == "tenant"
    assert len(access._sessions) == 1 + MAX_SESSIONS_OF_ONE


def test_sessions_are_bounded_in_total_and_no_live_one_ends_for_a_newcomer(stage, monkeypatch):
    monkeypatch.setattr(cluster_access, "MAX_SESSIONS", 2)
    _, clock, access = stage
    first, second = run(access.login("tenant-token")), run(access.login("blind-token"))
    with pytest.raises(RequestRefusedError, match="too many users") as refused:
        run(access.login("admin-token"))
    assert refused.value.status == 503
    again = run(access.login("tenant-token"))  # in place of its own
    assert run(access.viewer(None, again)).name == "tenant"
    assert run(access.viewer(None, second)).name == "blind"
    with pytest.raises(RequestRefusedError):
        run(access.viewer(None, first))
    clock.now = SESSION + 1  # those that have ended make room
    assert run(access.viewer(None, run(access.login("admin-token")))).name == "admin"


def test_a_user_with_many_tokens_leaves_the_answers_of_others_alone(stage, monkeypatch):
    server, _, access = stage
    run(access.viewer("tenant-token", None))
    for number in range(cluster_access.MAX_KEPT_OF_ONE * 3):
        monkeypatch.setitem(USERS, f"admin-{number}", USERS["admin-token"])
        run(access.viewer(f"admin-{number}", None))
    asked = len(server.asked)
    run(access.viewer("tenant-token", None))
    assert len(server.asked) == asked
    assert len(access._viewers) == 1 + cluster_access.MAX_KEPT_OF_ONE


def test_a_token_of_any_length_is_not_kept(stage):
    server, _, access = stage
    with pytest.raises(RequestRefusedError) as refused:
        run(access.login("x" * (MAX_TOKEN + 1)))
    assert (refused.value.status, server.asked) == (401, [])


@pytest.mark.parametrize("token", ["tenant-token", "wrong"])
def test_requests_that_come_together_share_one_review(stage, token):
    server, _, access = stage

    async def together():
        return await asyncio.gather(*(access.viewer(token, None) for _ in range(50)), return_exceptions=True)

    found = run(together())
    assert [one for one in server.asked if one[0] == "token"] == [("token", token)]
    assert len({str(one) for one in found}) == 1


def test_any_number_of_wrong_tokens_asks_a_few_at_once(stage):
    server, _, access = stage
    answered, most, now = server.request, 0, 0

    async def slow(method, path, body):
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return await answered(method, path, body)

    server.request = slow

    async def together():
        return await asyncio.gather(*(access.viewer(f"wrong-{n}", None) for n in range(200)), return_exceptions=True)

    assert {type(one) for one in run(together())} == {RequestRefusedError}
    assert most == AT_ONCE


def test_a_server_that_is_away_lets_nobody_in(stage):
    server, _, access = stage
    server.away = True
    with pytest.raises(RequestRefusedError, match="cannot review the token") as refused:
        run(access.viewer("admin-token", None))
    assert refused.value.status == 503
