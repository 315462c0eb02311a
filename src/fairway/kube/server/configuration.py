"""Which server to talk to: the file a user names, $KUBECONFIG, ~/.kube/config, or the cluster that we run in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fairway.errors import InputError
from fairway.kube.server.connection import Connection, Trust
from fairway.kube.server.credentials import TokenFile
from fairway.kube.server.kubeconfig import environment_proxy, read_kubeconfig

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def find_connection(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """InputError says what is missing or wrong, and where."""
    named = kubeconfig or environment.get("KUBECONFIG", "")
    if named:
        paths = [Path(part).expanduser() for part in named.split(os.pathsep) if part]
        return read_kubeconfig(paths, required=bool(kubeconfig)).connection(context)
    usual = Path(environment.get("HOME") or Path.home()) / ".kube" / "config"
    if usual.exists() or context:
        return read_kubeconfig([usual], required=True).connection(context)
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environment, service_account)
    raise InputError(
        f"no cluster is known: there is no {usual}, $KUBECONFIG is not set and this is not a pod; use --kubeconfig FILE"
    )


def in_cluster(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Connection:
    """The cluster of the pod that we run in, as its service account."""
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
    proxy = environment_proxy(server)
    return Connection(server, TokenFile(folder / "token"), Trust(authorities), proxy, namespace)
