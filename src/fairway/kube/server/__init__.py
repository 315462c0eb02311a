"""Which API server to use, and as whom: kubeconfig files, a pod's own files, and identities that change."""

from fairway.kube.server.connection import Connection, FixedCredentials, Identity
from fairway.kube.server.kubeconfig import find_connection

__all__ = ["Connection", "FixedCredentials", "Identity", "find_connection"]
