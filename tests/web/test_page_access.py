"""Who may see the page of a sandbox: hosts, origins, tokens, cookies, and what a browser is told to do."""

import http.client
import json
import socket

import pytest

from fairway.web import server as server_module
from support.objects import node, pod, queue
from support.sandboxes import after, made
from support.web_pages import HOST, TOKEN, AskedPage, served


@pytest.fixture(scope="module")
def sandbox():
    made_one = after(made(node("n", cpu=4), queue("q"), pod("w", cpu=9)), 5)
    yield made_one
    made_one.close()


@pytest.fixture
def page(sandbox):
    return AskedPage(sandbox, token=None)


BEARER = {"Authorization": f"Bearer {TOKEN}"}


def test_without_a_token_there_is_nothing_but_the_page(page):
    for path in ("session", "jobs", "overview", "events", "objects/pods", "frame"):
        status, answer = page.ask("GET", path)
        assert (status, answer["error"]) == (
            401,
            "no token: open the address that the terminal prints",
        )
    assert page.ask("POST", "apply", b'{"objects": []}').status == 401
    assert page.client.get("/").status_code == 200


@pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é"])
def test_a_wrong_token_opens_nothing(page, wrong):
    headers = {"Authorization": f"Bearer {wrong}".encode()}
    assert page.client.get("/api/v1/jobs", headers=headers).status_code == 401
    assert page.post("login", {"token": wrong}).status == 401
    page.client.cookies.set("fairway-0", wrong.encode("ascii", "replace").decode())
    assert page.ask("GET", "jobs").status == 401


def test_a_login_leaves_a_cookie_that_does_not_show_the_token(page):
    body = json.dumps({"token": TOKEN}).encode()
    answer = page.client.post("/api/v1/login", content=body, headers={"Content-Type": "application/json"})
    cookie = answer.headers["set-cookie"]
    assert TOKEN not in cookie
    assert all(part in cookie for part in ("fairway-0=", "HttpOnly", "SameSite=strict", "Path=/"))
    assert "Secure" not in cookie
    assert page.ask("GET", "jobs").status == 200
    page.ask("POST", "logout", b"{}")
    assert page.ask("GET", "jobs").status == 401


@pytest.mark.parametrize("path", ["/", "/jobs", "/api/v1/login", "/api/v1/session", "//evil.example"])
def test_a_token_in_the_address_opens_nothing(page, path):
    """A link of another site would log a browser in, and the token would be in histories and logs."""
    answer = page.client.get(f"http://{HOST}{path}", params={"token": TOKEN})
    assert "set-cookie" not in answer.headers
    assert "location" not in answer.headers
    assert page.ask("GET", "jobs").status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
)
def test_no_other_site_logs_a_browser_in(page, headers):
    body = json.dumps({"token": TOKEN}).encode()
    answer = page.client.post("/api/v1/login", content=body, headers={"Content-Type": "application/json", **headers})
    assert answer.status_code in (403, 415)
    assert "set-cookie" not in answer.headers


def test_the_cookie_stays_good_when_the_server_starts_again_with_its_token(sandbox):
    first, second = AskedPage(sandbox, None), AskedPage(sandbox, None)
    first.post("login", {"token": TOKEN})
    second.client.cookies = first.client.cookies
    assert second.ask("GET", "session").status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "testserver:81", ""])
def test_other_hosts_are_turned_away(page, host):
    assert page.client.get("/api/v1/jobs", headers={**BEARER, "Host": host}).status_code == 403
    assert page.client.get("/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://testserver.evil.example", "http://testserver:1"]
)
def test_pages_of_other_origins_are_turned_away(page, origin):
    page.post("login", {"token": TOKEN})
    assert page.ask("GET", "jobs", Origin=origin).status == 403
    assert page.ask("POST", "apply", b'{"objects": []}', Origin=origin).status == 403
    assert page.ask("GET", "jobs", Origin=f"http://{HOST}").status == 200


def test_a_form_or_an_image_of_another_page_changes_nothing(page):
    """CSRF: what browsers send without asking is not JSON, says where it comes from, or is no POST."""
    page.post("login", {"token": TOKEN})
    body = b'{"objects": []}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert page.ask("POST", "apply", body, Content_Type=kind).status == 415
    for site in ("cross-site", "same-site"):
        assert page.ask("POST", "apply", body, Sec_Fetch_Site=site).status == 403
    assert page.client.get("/api/v1/apply").status_code in (404, 405)
    assert page.ask("POST", "apply", body, Sec_Fetch_Site="same-origin", Origin=f"http://{HOST}").status == 200


def test_the_browser_is_told_to_run_nothing_but_the_page_s_own_scripts(page):
    for path in ("/", "/api/v1/jobs", "/assets/none.js"):
        headers = page.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/assets/../../../web/access.py", "/%2e%2e/access.py", "/assets/..%2f..%2faccess.py"]
)
def test_files_beside_the_page_are_not_served(page, path):
    answer = page.client.get(path)
    assert b"LoopbackAccess" not in answer.content
    assert b"hatchling" not in answer.content


def test_it_listens_on_the_loopback_address_only_and_hangs_up_on_silence(sandbox, monkeypatch):
    monkeypatch.setattr(server_module, "HEADERS", 0.2)
    with served(sandbox) as page:
        assert page.server._socket.getsockname()[0] == "127.0.0.1"
        with socket.create_connection(("127.0.0.1", page.server.port), timeout=10) as slow:
            slow.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: ")
            assert slow.recv(100) == b""
        connection = http.client.HTTPConnection("127.0.0.1", page.server.port, timeout=10)
        connection.request("GET", "/api/v1/jobs", headers={"X": "y" * 100_000})
        assert connection.getresponse().status in (400, 431)
        connection.close()
        connection.request("GET", "/api/v1/jobs", headers={"Authorization": f"Bearer {TOKEN}"})
        assert connection.getresponse().status == 200
        connection.close()
