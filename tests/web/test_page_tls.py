"""The page with a certificate of its own: loaded again when its files change, and never replaced by a bad one."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.app.logs import RunLog
from fairway.errors import InputError
from fairway.web import connections
from fairway.web import server as server_module
from fairway.web.access import LoopbackAccess
from fairway.web.application import application
from fairway.web.connections import ReloadedCertificate
from fairway.web.sandbox_page import sandbox_watch
from fairway.web.server import PageServer
from fairway.web.shown import ShownCluster
from support.browsing import eventually
from support.certificates import OPENSSL, make_certificate
from support.objects import node, queue
from support.sandboxes import after, made
from support.web_pages import TOKEN

pytestmark = pytest.mark.skipif(OPENSSL is None, reason="needs openssl")


class Mounted:
    """A folder as kubelets mount a Secret: both files behind one symbolic link, which is swapped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self.swap(make_certificate(folder / "first", "first").certificate.parent)
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(f"..data/{name}")
        self.certificate, self.key = str(folder / "tls.crt"), str(folder / "tls.key")

    def swap(self, source: Path) -> None:
        self._number += 1
        target = self._folder / f"..{self._number}"
        shutil.copytree(source, target)
        link = self._folder / "..data_tmp"
        link.symlink_to(target.name)
        link.rename(self._folder / "..data")


class SecurePage:
    def __init__(self, mounted: Mounted, sandbox: Any) -> None:
        self.lines: list[dict[str, Any]] = []
        log = RunLog("json", write=lambda line: self.lines.append(json.loads(line)))
        shown = ShownCluster("sandbox", "Sandbox", sandbox_watch(sandbox), sandbox=sandbox, log=log)
        site = application(shown, LoopbackAccess(TOKEN), lambda: None)
        self.certificate = ReloadedCertificate(mounted.certificate, mounted.key, log)
        self.server = PageServer(site.app, 0, log, certificate=self.certificate)
        self.first = Path(mounted.certificate).read_text()

    def shown_name(self) -> str:
        """Of the certificate that a new connection is shown."""
        raw = ssl.get_server_certificate(("127.0.0.1", self.server.port))
        return "first" if raw.strip() == self.first.strip() else "another"

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> http.client.HTTPResponse:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.server.port, timeout=20, context=context)
        connection.request(method, path, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    def logged(self, part: str) -> bool:
        return any(part in line["message"] for line in self.lines)


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path / "mount")


@pytest.fixture
def page(mounted: Mounted, monkeypatch: pytest.MonkeyPatch) -> Iterator[SecurePage]:
    monkeypatch.setattr(server_module, "RELOAD_INTERVAL", 0.05)
    sandbox = after(made(node("n", cpu=4), queue("q")), 5)
    page = SecurePage(mounted, sandbox)
    page.server.start()
    yield page
    page.server.stop()
    sandbox.close()


def test_the_page_is_answered_by_tls_with_secure_cookies(page: SecurePage) -> None:
    assert page.server.url.startswith("https://")
    assert page.ask("GET", "/api/v1/overview", Authorization=f"Bearer {TOKEN}").status == 200
    host = f"127.0.0.1:{page.server.port}"
    body = json.dumps({"token": TOKEN}).encode()
    cookie = page.ask("POST", "/api/v1/login", body, Origin=f"https://{host}").getheader("set-cookie") or ""
    assert all(part in cookie for part in ("Secure", "HttpOnly", "SameSite=strict"))
    # A page that came without TLS from the same host and port is another one.
    assert page.ask("POST", "/api/v1/login", body, Origin=f"http://{host}").status == 403


def test_a_client_without_tls_or_with_an_old_one_gets_nothing(page: SecurePage) -> None:
    with socket.create_connection(("127.0.0.1", page.server.port), timeout=20) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP/1.1" not in client.recv(65536)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(("127.0.0.1", page.server.port), timeout=20) as client,
        old.wrap_socket(client) as secured,
    ):
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
    assert page.certificate.context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_new_certificate_is_used_for_new_connections(page: SecurePage, mounted: Mounted, tmp_path: Path) -> None:
    assert page.shown_name() == "first"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    kept = http.client.HTTPSConnection("127.0.0.1", page.server.port, timeout=20, context=context)
    kept.request("GET", "/healthz")
    assert kept.getresponse().read() == b"ok\n"
    mounted.swap(make_certificate(tmp_path / "second", "second").certificate.parent)
    eventually(lambda: page.shown_name() == "another", "the new certificate")
    assert page.logged("reloaded")
    kept.request("GET", "/healthz")  # the connection that was there goes on
    assert kept.getresponse().read() == b"ok\n"
    kept.close()


@pytest.mark.parametrize("wrong", ["another key", "no key", "no certificate", "text", "empty", "encrypted"])
def test_a_bad_pair_leaves_the_old_one_in_use(page: SecurePage, mounted: Mounted, tmp_path: Path, wrong: str) -> None:
    bad = make_certificate(tmp_path / "bad", "bad")
    if wrong == "another key":
        shutil.copy(make_certificate(tmp_path / "else", "else").key, bad.key)
    elif wrong in ("no key", "no certificate"):
        (bad.key if wrong == "no key" else bad.certificate).unlink()
    elif wrong == "encrypted":
        command = f"openssl ec -aes256 -passout pass:x -in {bad.key} -out {bad.key}.new 2>/dev/null"
        assert os.system(command) == 0
        bad.key.with_name("tls.key.new").rename(bad.key)
    else:
        bad.certificate.write_text("" if wrong == "empty" else "not a certificate")
    mounted.swap(bad.certificate.parent)
    eventually(lambda: page.logged("is invalid; the old one stays in use"), "the warning")
    assert page.shown_name() == "first"
    assert page.ask("GET", "/api/v1/overview", Authorization=f"Bearer {TOKEN}").status == 200
    mounted.swap(make_certificate(tmp_path / "good", "good").certificate.parent)
    eventually(lambda: page.shown_name() == "another", "the good one")


def test_a_bad_pair_at_the_start_is_said(tmp_path: Path) -> None:
    made_one = make_certificate(tmp_path)
    log = RunLog(write=lambda line: None)
    for certificate, key in (
        (tmp_path / "none", made_one.key),
        (made_one.certificate, tmp_path / "none"),
        (made_one.key, made_one.certificate),
    ):
        with pytest.raises(InputError, match="the page's certificate"):
            ReloadedCertificate(str(certificate), str(key), log)
    assert connections.RELOAD_INTERVAL > 0


def test_connections_that_never_end_their_handshake_count_and_are_closed(
    page: SecurePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_ANONYMOUS", 10)
    held = [socket.create_connection(("127.0.0.1", page.server.port), timeout=20) for _ in range(60)]
    eventually(lambda: page.server.connections.anonymous == 10, "the oldest are closed")
    begin = time.monotonic()
    assert page.ask("GET", "/api/v1/overview", Authorization=f"Bearer {TOKEN}").status == 200
    assert time.monotonic() - begin < 5
    for one in held:
        one.close()
    eventually(lambda: page.server.connections.anonymous == 0, "all are forgotten")


def test_a_handshake_has_its_time(page: SecurePage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HEADERS", 0.2)
    with socket.create_connection(("127.0.0.1", page.server.port), timeout=20) as silent:
        assert silent.recv(1) == b""
    eventually(lambda: page.server.connections.anonymous == 0, "it is forgotten")
