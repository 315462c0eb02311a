"""The options of an installation."""

from __future__ import annotations

from dataclasses import dataclass

from fairway import __version__
from fairway.api.pods import DEFAULT_SCHEDULER

DEFAULT_POLICY = """\
# Reloaded when it changes; an invalid policy leaves the previous one in effect.
# `fairway policy show` prints every setting with its default.
actions: enqueue, reserve, allocate, reclaim, backfill
tiers:
  - plugins:
      - name: priority
      - name: gang
      - name: conformance
  - plugins:
      - name: drf
      - name: predicates
      - name: proportion
      - name: nodeorder
      - name: devices
"""


@dataclass(frozen=True, slots=True)
class InstallOptions:
    part: str = "scheduler"
    """What is installed: the scheduler of a cluster, or the placer (`fleet`) of a hub."""
    name: str = "fairway"
    namespace: str = "fairway-system"
    image: str = f"fairway:{__version__}"
    replicas: int = 2
    scheduler_names: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    volcano_crds: bool = True
    crds_only: bool = False
    admission: bool = True
    service_monitor: bool = False
    agent: bool = False
    agent_publish: str = "slices"
    """How agents publish devices: `slices`, or `annotation` for clusters without DRA."""
    web: bool = False
    """Serve the page from a container of its own, for users with tokens of the cluster."""
    web_tls_secret: str = ""
    """The Secret (of type kubernetes.io/tls) with the page's certificate; "" is plain HTTP."""
    allow_actions: bool = False
    """Let users of the page act on jobs, with their own rights."""
    default_for_label: str = ""
    policy_config_map: str = "fairway-policy"
    policy: str = DEFAULT_POLICY

    @property
    def identity(self) -> str:
        """The user name that the scheduler has at the API server."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def page_name(self) -> str:
        """Name of the page's service account and of everything that is installed for it."""
        return f"{self.name}-page"
