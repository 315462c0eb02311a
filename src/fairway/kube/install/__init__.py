"""The objects that `fairway install` prints: CRDs, access, admission policies, the Deployment. Nothing is applied."""

from fairway.kube.install.options import DEFAULT_POLICY, InstallOptions
from fairway.kube.install.output import helm_chart, json_list, kustomize_base, stream

__all__ = [
    "DEFAULT_POLICY",
    "InstallOptions",
    "helm_chart",
    "json_list",
    "kustomize_base",
    "stream",
]
