"""Ways to reach a real API server and to say who one is: as a kubeconfig has them."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.process import RunProcess
from support.cli import invoke


def kubeconfig(plane: ControlPlane, folder: Path, *, cluster: dict[str, Any] | None = None, **user: Any) -> str:
    """The administrator's own, with another cluster or another user."""
    found = json.loads(plane.kubeconfig().read_text())
    found["clusters"][0]["cluster"].update(cluster or {})
    if user:
        found["users"][0]["user"] = user
    path = folder / "kubeconfig"
    path.write_text(json.dumps(found))
    return str(path)


def answers(config: str) -> bool:
    result = invoke("plan", "--kubeconfig", config, "-o", "json")
    assert result.code == 0, result.err
    return "bindings" in result.plan


def test_a_server_may_be_known_by_another_name(plane: ControlPlane, tmp_path: Path) -> None:
    assert answers(kubeconfig(plane, tmp_path, cluster={"tls-server-name": "kubernetes.default.svc"}))
    wrong = kubeconfig(plane, tmp_path, cluster={"tls-server-name": "else.example"})
    result = invoke("plan", "--kubeconfig", wrong)
    assert result.code == 2
    assert "else.example" in result.err


class Tunnel:
    """A proxy that knows CONNECT and nothing else."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._connect, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _connect(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        self.asked.append(head.decode().splitlines()[0])
        host, _, port = head.decode().split()[1].partition(":")
        with client, socket.create_connection((host, int(port))) as server:
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
            back.start()
            _pass_on(client, server)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


@pytest.fixture(name="tunnel")
def a_proxy() -> Iterator[Tunnel]:
    tunnel = Tunnel()
    yield tunnel
    tunnel.close()


def test_a_server_may_stand_behind_a_proxy(plane: ControlPlane, tmp_path: Path, tunnel: Tunnel) -> None:
    assert answers(kubeconfig(plane, tmp_path, cluster={"proxy-url": f"http://127.0.0.1:{tunnel.port}"}))
    assert set(tunnel.asked) == {f"CONNECT 127.0.0.1:{plane.port} HTTP/1.1"}


def test_a_client_certificate_says_who_one_is(plane: ControlPlane, tmp_path: Path) -> None:
    key, request, certificate = (str(tmp_path / name) for name in ("key", "request", "certificate"))
    subject = ["-subj", "/O=system:masters/CN=someone"]
    subprocess.run(
        ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, *subject],
        check=True,
        capture_output=True,
    )
    authority = ["-CA", str(plane.client_ca), "-CAkey", str(plane.client_ca.with_suffix(".key")), "-CAcreateserial"]
    subprocess.run(
        ["openssl", "x509", "-req", "-in", request, "-out", certificate, "-days", "2", *authority],
        check=True,
        capture_output=True,
    )
    user: dict[str, Any] = {"client-certificate": certificate, "client-key": key}
    config = kubeconfig(plane, tmp_path, **user)
    assert answers(config)


def test_a_plugin_whose_tokens_expire_is_asked_again_while_the_scheduler_runs(cluster: Cluster, tmp_path: Path) -> None:
    program, runs = tmp_path / "plugin", tmp_path / "runs"
    credential = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"'
    until = "$(date -u -d '+3 seconds' +%Y-%m-%dT%H:%M:%SZ)"
    text = (credential % cluster.plane.tokens["scheduler"]).replace('"', '\\"')
    program.write_text(f'#!/bin/sh\necho run >> {runs}\necho "{text}, \\"expirationTimestamp\\": \\"{until}\\"}}}}"\n')
    program.chmod(0o755)
    how = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    config = kubeconfig(cluster.plane, tmp_path, exec=how)
    off = {"enabled": False}
    run = RunProcess(tmp_path, "run", kubeconfig=config, schedulerNames=[cluster.scheduler], leaderElection=off)
    cluster.node("n", cpu=100, pods=1000)
    run.start()
    number = 0

    def asked() -> int:
        """How often; each look makes the scheduler write something."""
        nonlocal number
        number += 1
        cluster.pod(f"p{number}", cpu="10m")
        eventually(lambda: cluster.places()[f"p{number}"] == "n")
        return len(runs.read_text().splitlines())

    try:
        eventually(lambda: asked() >= 3, "the plugin is asked again")
        assert run.stop() == 0
        assert run.problems() == []
    finally:
        run.kill()
