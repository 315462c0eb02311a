"""`ControlPlane`: one etcd and one kube-apiserver on loopback, in a folder and on ports of their own.

RBAC is on. Users are known by token: `admin` may do everything, `scheduler` is the service account that
`fairway install` binds its roles to, and has no rights until a test grants them. Switched off on purpose: the admission
plugins ServiceAccount (pods need no account that a controller would have to make) and TaintNodesByCondition (nodes of
tests are ready at once).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kube.controlplane.build import cache_folder

SCHEDULER = "system:serviceaccount:fairway-system:fairway"
"""The user of the token `scheduler`."""
PAGE = "system:serviceaccount:fairway-system:fairway-page"
"""The user of the token `page`."""
PLACER = "system:serviceaccount:fairway-system:fairway-fleet"
"""The user of the token `fleet`."""
AGENT = "system:serviceaccount:fairway-agent:fairway-agent"
"""Its tokens are made by the server, one for each node."""
_USERS = {
    "admin": ("admin", "system:masters"),
    "scheduler": (SCHEDULER, "system:serviceaccounts"),
    "page": (PAGE, "system:serviceaccounts"),
    "fleet": (PLACER, "system:serviceaccounts"),
}
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [SCHEDULER, PAGE, PLACER, AGENT]}, {"level": "None"}],
}
"""What Fairway's programs asked for and whether it was allowed: a test run ends with a look at that (`kube.audit`)."""
_PATIENCE = 180.0
"""Seconds for a server to become ready, on a machine that does much else."""


def _told(error: urllib.error.HTTPError) -> urllib.error.HTTPError:
    """The same error with what the server says; its body can still be read."""
    body = error.read()
    text = f"{error.msg}: {body[:2000].decode(errors='replace')}"
    return urllib.error.HTTPError(error.url, error.code, text, error.headers, io.BytesIO(body))


class ControlPlane:
    """Started by `start`, ended by `stop`; in between the server can be restarted and its history compacted."""

    def __init__(self, folder: Path, flags: Mapping[str, str] | None = None) -> None:
        """`flags` are more flags of kube-apiserver, without their dashes."""
        self.folder = folder
        self.port, self._etcd_port, peer = _free_ports(3)
        self._peer_port = peer
        self._flags = dict(flags or {})
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.tokens = {name: secrets.token_hex(24) for name in _USERS}

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        """Made by the server at its first start."""
        return self.folder / "certs" / "apiserver.crt"

    @property
    def client_ca(self) -> Path:
        """The authority of client certificates; its key is beside it."""
        return self.folder / "certs" / "client-ca.crt"

    @property
    def audit_file(self) -> Path:
        """One JSON line for each request of Fairway's programs. Kept where FAIRWAY_AUDIT says, if it does."""
        folder = os.environ.get("FAIRWAY_AUDIT")
        return Path(folder) / f"{self.folder.name}.jsonl" if folder else self.folder / "audit.jsonl"

    # -- life ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        certs = self.folder / "certs"
        certs.mkdir(parents=True, exist_ok=True)
        _key_pair(certs)
        _authority(self.client_ca)
        lines = [f'{self.tokens[name]},{user},{name},"{group}"' for name, (user, group) in _USERS.items()]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "audit-policy.json").write_text(json.dumps(_AUDIT))
        try:
            self._start_etcd()
            self.start_server()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for name in ("kube-apiserver", "etcd"):
            self._end(name)

    def start_server(self) -> None:
        certs = self.folder / "certs"
        flags = {
            "etcd-servers": f"http://127.0.0.1:{self._etcd_port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(self.port),
            "cert-dir": str(certs),
            "endpoint-reconciler-type": "none",
            "service-cluster-ip-range": "10.0.0.0/16",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": str(certs / "sa.pub"),
            "service-account-signing-key-file": str(certs / "sa.key"),
            "client-ca-file": str(self.client_ca),
            "token-auth-file": str(self.folder / "tokens.csv"),
            "authorization-mode": "RBAC",
            "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
            "feature-gates": "GenericWorkload=true,DRADeviceTaintRules=true",
            "runtime-config": "scheduling.k8s.io/v1alpha2=true,resource.k8s.io/v1beta2=true",
            "max-requests-inflight": "1600",
            "max-mutating-requests-inflight": "800",
            "profiling": "false",
            "audit-policy-file": str(self.folder / "audit-policy.json"),
            "audit-log-path": str(self.audit_file),
            **self._flags,
        }
        self._run("kube-apiserver", {name: text for name, text in flags.items() if text})
        self._wait_for("kube-apiserver", self._is_ready)

    def stop_server(self, *, kill: bool = False) -> None:
        """The data stays: `start_server` goes on from there."""
        self._end("kube-apiserver", signal.SIGKILL if kill else signal.SIGTERM)

    def compact(self) -> None:
        """Forget the history up to now, so that a watch from an older version is answered with 410."""
        status = self.etcd("/v3/maintenance/status", {})
        self.etcd("/v3/kv/compaction", {"revision": status["header"]["revision"], "physical": True})

    # -- for clients ---------------------------------------------------------------------------------------

    def kubeconfig(self, user: str = "admin") -> Path:
        """A file that names this server and this user."""
        path = self.folder / f"{user}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "plane", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": user, "context": {"cluster": "plane", "user": user}}],
            "current-context": user,
        }
        path.write_text(json.dumps(config))
        return path

    def call(self, method: str, path: str, body: object = None, *, user: str = "admin", kind: str = "") -> Any:
        """One request, without any code of Fairway's; an error status raises `urllib.error.HTTPError`, which says why.

        `kind` is the type of a patch: merge, strategic or apply.
        """
        types = {
            "": "application/json",
            "merge": "application/merge-patch+json",
            "strategic": "application/strategic-merge-patch+json",
            "apply": "application/apply-patch+yaml",
        }
        headers = {"Authorization": f"Bearer {self.tokens[user]}", "Content-Type": types[kind]}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        context = ssl.create_default_context(cafile=str(self.ca_file))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        for _ in range(60):
            try:
                with opener.open(request, timeout=60) as answer:
                    text = answer.read()
                break
            except urllib.error.HTTPError as error:
                busy = error.code == 429 and error.headers.get("Retry-After")
                if not busy:
                    raise _told(error) from None
                time.sleep(1)
        return json.loads(text) if text[:1] in (b"{", b"[") else text.decode()

    # -- inside --------------------------------------------------------------------------------------------

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        flags = {
            "name": "plane",
            "data-dir": str(self.folder / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"plane={peer}",
            "log-level": "warn",
            "unsafe-no-fsync": "true",
        }
        self._run("etcd", flags)
        self._wait_for("etcd", lambda: bool(self.etcd("/v3/maintenance/status", {})))

    def _run(self, name: str, flags: Mapping[str, str]) -> None:
        command = [str(cache_folder() / name), *(f"--{flag}={text}" for flag, text in flags.items())]
        with (self.folder / f"{name}.log").open("ab") as log:
            # a session of its own: Ctrl-C in a terminal ends the tests, and the tests end the servers
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self.folder
            )

    def _wait_for(self, name: str, is_ready: Any) -> None:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and self._running[name].poll() is None:
            with contextlib.suppress(OSError, ValueError):
                if is_ready():
                    return
            time.sleep(0.1)
        last = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("\n".join([f"{name} did not become ready; the end of its log:", *last]))

    def _is_ready(self) -> bool:
        """Ready, and with the namespace that pods of tests are made in."""
        if not self.ca_file.exists() or self.call("GET", "/readyz") != "ok":
            return False
        try:
            return bool(self.call("GET", "/api/v1/namespaces/default"))
        except urllib.error.HTTPError:
            return False

    def etcd(self, path: str, body: object) -> Any:
        """One call of etcd's JSON gateway."""
        request = urllib.request.Request(f"http://127.0.0.1:{self._etcd_port}{path}", json.dumps(body).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as answer:
            return json.loads(answer.read())

    def _end(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        process = self._running.pop(name, None)
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)


def data_folder(fallback: Path) -> Path:
    """Memory, where there is some: etcd on a slow disk makes every test slow."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        return fallback
    folder = memory / f"fairway-plane-{os.getpid()}-{secrets.token_hex(3)}"
    folder.mkdir(mode=0o700)
    return folder


def _key_pair(folder: Path) -> None:
    """What service account tokens are signed with."""
    if not (folder / "sa.key").exists():
        private, public = str(folder / "sa.key"), str(folder / "sa.pub")
        subprocess.run(["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)


def _authority(path: Path) -> None:
    """Signed by itself; certificates that it signs are believed by the server."""
    if not path.exists():
        names = ["-keyout", str(path.with_suffix(".key")), "-out", str(path), "-subj", "/CN=clients of tests"]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
        subprocess.run(command, check=True, capture_output=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
