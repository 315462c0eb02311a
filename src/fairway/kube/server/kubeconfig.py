"""Which server to use: the kubeconfig files that a user names, $KUBECONFIG, ~/.kube/config, or the pod's own cluster.

Kubeconfig files are merged as kubectl merges them. Several may be given, separated as in $PATH: for each name the first
file that has it counts, and so does the first `current-context`. Paths in a file are relative to its folder. A library
was considered (kubernetes_asyncio): importing it costs 1.9 s of processor time and 77 MB, more than the rest of the
scheduler.

A proxy is the cluster's own (`proxy-url`), or that of the environment: HTTPS_PROXY or HTTP_PROXY, by the server's
scheme, unless NO_PROXY names the server. NO_PROXY has host names (a name covers its subdomains), IP addresses and
networks such as 10.96.0.0/12, each with an optional port, or `*`. Clusters list their service network there, which the
standard library does not understand. Loopback addresses never use the environment's proxy.

Not supported, and refused with a message: `auth-provider` (replaced by plugins), impersonation (`as`), SOCKS proxies.
"""

from __future__ import annotations

import binascii
import os
import shutil
from base64 import b64decode
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from fairway.api.text import YamlProblem, YamlReader
from fairway.errors import InputError
from fairway.kube.server.connection import (
    Certificate,
    Connection,
    Credentials,
    FixedCredentials,
    Identity,
    Plugin,
    PluginCredentials,
    TokenFile,
    Trust,
    basic,
)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_FILE = 4 << 20
_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


def find_connection(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The connection to use. InputError says what is missing or wrong, and where."""
    named = kubeconfig or environment.get("KUBECONFIG", "")
    if named:
        paths = [Path(part).expanduser() for part in named.split(os.pathsep) if part]
        return read_kubeconfig(paths, required=bool(kubeconfig)).connection(context, environment)
    usual = Path(environment.get("HOME") or Path.home()) / ".kube" / "config"
    if usual.exists() or context:
        return read_kubeconfig([usual], required=True).connection(context, environment)
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environment, service_account)
    raise InputError(
        f"no cluster is configured: {usual} does not exist, $KUBECONFIG is not set and this is not a pod;"
        " use --kubeconfig FILE"
    )


def in_cluster(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Connection:
    """The cluster of the pod that this process runs in, as its service account."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        authorities = (folder / "ca.crt").read_bytes()
        (folder / "token").read_bytes()
    except OSError as error:
        where = error.filename or folder
        raise InputError(
            f"{where}: {error.strerror}: the pod has no service account token (automountServiceAccountToken)"
        ) from None
    name = folder / "namespace"
    namespace = name.read_text().strip() if name.exists() else "default"
    proxy = environment_proxy(server, environment)
    return Connection(server, TokenFile(folder / "token"), Trust(authorities), proxy, namespace)


# -- files ---------------------------------------------------------------------------------------------------------


class _KubeStruct(msgspec.Struct, rename="kebab", frozen=True):
    """Names in a kubeconfig have hyphens."""


class ClusterEntry(_KubeStruct, frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str


class ExecEntry(msgspec.Struct, rename="camel", frozen=True):
    command: str
    args: tuple[str, ...] | None = None
    env: tuple[_Variable, ...] | None = None
    api_version: str = _API_VERSIONS[0]
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class UserEntry(_KubeStruct, frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: ExecEntry | None = None
    auth_provider: dict[str, Any] | None = None
    impersonated: str = msgspec.field(default="", name="as")


class ContextEntry(_KubeStruct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: ClusterEntry = ClusterEntry()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: UserEntry = UserEntry()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: ContextEntry = ContextEntry()


class _KubeconfigFile(_KubeStruct, frozen=True):
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None
    current_context: str = ""


E = TypeVar("E", ClusterEntry, UserEntry, ContextEntry)
_Entries = dict[str, tuple[Path, E]]


class Kubeconfig:
    """The entries of several files, each with the file that it is from."""

    def __init__(self) -> None:
        self.clusters: _Entries[ClusterEntry] = {}
        self.users: _Entries[UserEntry] = {}
        self.contexts: _Entries[ContextEntry] = {}
        self.current_context = ""

    def add(self, path: Path, text: str) -> None:
        """One more file; entries of earlier files take precedence."""
        parsed = _parse(path, text)
        for cluster in parsed.clusters or ():
            self.clusters.setdefault(cluster.name, (path, cluster.cluster))
        for user in parsed.users or ():
            self.users.setdefault(user.name, (path, user.user))
        for context in parsed.contexts or ():
            self.contexts.setdefault(context.name, (path, context.context))
        self.current_context = self.current_context or parsed.current_context

    def connection(self, context: str | None = None, environment: Mapping[str, str] = os.environ) -> Connection:
        """That of a context, or of the current one."""
        name = context or self.current_context
        if not self.contexts:
            raise InputError("the kubeconfig has no context, expected a file that has one")
        if not name:
            raise InputError(f"no context is current, expected one of {_names(self.contexts)} (--context)")
        path, chosen = _entry(self.contexts, name, "context", "the kubeconfig")
        cluster_path, cluster = _entry(self.clusters, chosen.cluster, "cluster", f"{path}: context {name!r}")
        user_path, user = path, UserEntry()
        if chosen.user:
            user_path, user = _entry(self.users, chosen.user, "user", f"{path}: context {name!r}")
        where = f"{cluster_path}: cluster {chosen.cluster!r}"
        return Connection(
            server=_server(cluster.server, where),
            credentials=_credentials(user, user_path, f"{user_path}: user {chosen.user!r}", cluster),
            trust=_trust(cluster, cluster_path, where),
            proxy=_proxy(cluster, where, environment),
            namespace=chosen.namespace or "default",
        )


def read_kubeconfig(paths: list[Path], *, required: bool) -> Kubeconfig:
    """Files that do not exist are skipped, unless they are required."""
    config = Kubeconfig()
    for path in paths:
        if path.exists() or required:
            config.add(path, _file(path, str(path)).decode("utf-8", "replace"))
    return config


def _parse(path: Path, text: str) -> _KubeconfigFile:
    try:
        documents = list(YamlReader(text).documents())
    except YamlProblem as problem:
        raise InputError(f"{path}:{problem.line}: {problem.message}") from None
    plain = documents[0] if documents else None
    if plain is None:
        return _KubeconfigFile()
    try:
        return msgspec.convert(plain, _KubeconfigFile)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: not a kubeconfig: {error}") from None


def _entry(entries: _Entries[E], name: str, kind: str, where: str) -> tuple[Path, E]:
    if name not in entries:
        raise InputError(f"{where}: there is no {kind} {name!r}, expected one of {_names(entries)}")
    return entries[name]


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries)) or "none: the kubeconfig has no such entries"


def _server(address: str, where: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise InputError(f"{where}: server is {address!r}, expected an address such as https://10.0.0.1:6443")
    return address.rstrip("/")


def _trust(cluster: ClusterEntry, path: Path, where: str) -> Trust:
    authorities = _data(cluster.certificate_authority_data, f"{where}: certificate-authority-data")
    if authorities is None and cluster.certificate_authority:
        authorities = _file(_beside(path, cluster.certificate_authority), f"{where}: certificate-authority")
    if authorities is not None and cluster.insecure_skip_tls_verify:
        raise InputError(f"{where}: has a certificate-authority and insecure-skip-tls-verify, expected one of them")
    return Trust(authorities, cluster.insecure_skip_tls_verify, cluster.tls_server_name or None)


def _proxy(cluster: ClusterEntry, where: str, environment: Mapping[str, str]) -> str | None:
    """The cluster's own, or else that of the environment."""
    if cluster.proxy_url:
        return _http_proxy(cluster.proxy_url, f"{where}: proxy-url")
    return environment_proxy(cluster.server, environment)


def environment_proxy(server: str, environment: Mapping[str, str]) -> str | None:
    parts = urlsplit(server)
    name = f"{parts.scheme}_proxy"
    value = environment.get(name) or environment.get(name.upper()) or ""
    if not value or parts.hostname is None:
        return None
    exceptions = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if _is_loopback(parts.hostname) or _is_excepted(parts.hostname, parts.port, exceptions):
        return None
    return _http_proxy(value if "://" in value else f"http://{value}", f"${name.upper()}")


def _http_proxy(address: str, where: str) -> str:
    """The message leaves a password in the address out."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = address.rpartition("@")[2] if "@" in address else address
        raise InputError(f"{where} is {shown!r}, expected an http or https address")
    return address


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_excepted(host: str, port: int | None, exceptions: str) -> bool:
    return any(_excepts(entry.strip().lower(), host.lower(), port) for entry in exceptions.split(",") if entry.strip())


def _excepts(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and (":" not in name or name.startswith("[")):
        if port is not None and int(number) != port:
            return False
        entry = name.strip("[]")
    try:
        address = ip_address(host)
    except ValueError:
        domain = entry.removeprefix("*").strip(".")
        return bool(domain) and (host == domain or host.endswith(f".{domain}"))
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False


def _credentials(user: UserEntry, path: Path, where: str, cluster: ClusterEntry) -> Credentials:
    if user.auth_provider is not None:
        raise InputError(f"{where}: auth-provider is not supported, expected a plugin under exec")
    if user.impersonated:
        raise InputError(f"{where}: impersonation (as) is not supported")
    certificate = _certificate(user, path, where)
    if user.token_file:
        return TokenFile(_beside(path, user.token_file), certificate=certificate)
    if user.token:
        return FixedCredentials(Identity(f"Bearer {user.token}", certificate))
    if user.username:
        return FixedCredentials(Identity(basic(user.username, user.password), certificate))
    if user.exec is not None:
        return PluginCredentials(_plugin(user.exec, path, where, cluster))
    return FixedCredentials(Identity("", certificate))


def _certificate(user: UserEntry, path: Path, where: str) -> Certificate | None:
    parts: list[bytes | None] = []
    for name, data, file in (
        ("client-certificate", user.client_certificate_data, user.client_certificate),
        ("client-key", user.client_key_data, user.client_key),
    ):
        part = _data(data, f"{where}: {name}-data")
        if part is None and file:
            part = _file(_beside(path, file), f"{where}: {name}")
        parts.append(part)
    certificate, key = parts
    if (certificate is None) != (key is None):
        raise InputError(f"{where}: has one of client-certificate and client-key, expected both or none")
    return None if certificate is None or key is None else Certificate(certificate, key)


def _plugin(entry: ExecEntry, path: Path, where: str, cluster: ClusterEntry) -> Plugin:
    if entry.api_version not in _API_VERSIONS:
        expected = " or ".join(_API_VERSIONS)
        raise InputError(f"{where}: exec.apiVersion is {entry.api_version!r}, expected {expected}")
    if entry.interactive_mode == "Always":
        raise InputError(f"{where}: exec.interactiveMode is Always, and there is no terminal to answer on")
    command = entry.command
    if os.sep in command:
        command = str(_beside(path, command))
    elif shutil.which(command) is None:
        hint = f"\n{entry.install_hint}" if entry.install_hint else ""
        raise InputError(f"{where}: exec.command: there is no program {command!r} on the PATH{hint}")
    return Plugin(
        command=command,
        arguments=entry.args or (),
        environment={variable.name: variable.value for variable in entry.env or ()},
        api_version=entry.api_version,
        install_hint=entry.install_hint,
        cluster=_cluster_info(cluster) if entry.provide_cluster_info else None,
    )


def _cluster_info(cluster: ClusterEntry) -> dict[str, Any]:
    info: dict[str, Any] = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": cluster.certificate_authority_data,
        "proxy-url": cluster.proxy_url,
    }
    return {name: value for name, value in info.items() if value}


def _beside(path: Path, name: str) -> Path:
    return path.parent / name


def _data(text: str, where: str) -> bytes | None:
    if not text:
        return None
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise InputError(f"{where}: not base64: {error}") from None


def _file(path: Path, where: str) -> bytes:
    named = where if where == str(path) else f"{where}: {path}"
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE + 1)
    except OSError as error:
        raise InputError(f"{named}: cannot be read: {error.strerror}") from None
    if len(raw) > MAX_FILE:
        raise InputError(f"{named}: more than {MAX_FILE} bytes")
    return raw
