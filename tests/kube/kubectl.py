"""kubectl as users have it: the one that was built with the control plane."""

from __future__ import annotations

import subprocess

from kube.controlplane.build import cache_folder
from kube.controlplane.plane import ControlPlane


class Kubectl:
    """Commands in one namespace, as an administrator."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self._begin = [str(cache_folder() / "kubectl"), "--kubeconfig", str(plane.kubeconfig("admin")), "-n", namespace]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run([*self._begin, *arguments], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, *arguments: str) -> list[list[str]]:
        return [line.split() for line in self(*arguments).splitlines()]
