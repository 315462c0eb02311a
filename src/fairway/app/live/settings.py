"""`RunSettings`: everything that can be set for `fairway run`, by flags or in a file of `kind: FairwayConfiguration`.

Each field is one setting. Its name in the file is the field's name in camel case; the flag has hyphens. A flag
overrides the file, and the file overrides the default. Durations are in seconds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fairway.api.hand_written import read_configuration
from fairway.api.pods import DEFAULT_SCHEDULER
from fairway.api.shape import fit, path_text
from fairway.app.live.program import LeaderElection, Span
from fairway.errors import InputError
from fairway.state.cluster import COLUMN_BYTES
from fairway.state.namespaces import SCHEDULING_BUDGET

API_VERSION = "fairway.dev/v1alpha1"
KIND = "FairwayConfiguration"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_CONFIG_MAP = re.compile(rf"{_NAME.pattern}/{_NAME.pattern}(/[A-Za-z0-9._-]{{1,253}})?")

Number = Annotated[int, Meta(ge=1, le=1_000_000)]


class RunSettings(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """The settings of a live scheduler."""

    kubeconfig: str | None = None
    context: str | None = None
    scheduler_names: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    policy: str | None = None
    """Policy file. Without it and without a ConfigMap, the built-in policy applies."""
    policy_config_map: str | None = None
    """`namespace/name`, or `namespace/name/key` if the key is not `policy.yaml`."""
    policy_interval: Annotated[float, Meta(ge=0.1, le=86400)] = 5.0
    """Time between two checks for a new policy."""
    shadow_policy: str | None = None
    shadow_every: Number = 1
    """Evaluate the shadow policy in every n-th cycle."""
    dry_run: bool = False
    min_interval: Span = 0.05
    max_in_flight_binds: Number = 2000
    connections: Annotated[int, Meta(ge=1, le=1000)] = 32
    """Maximum number of concurrent writes."""
    column_memory: Annotated[int, Meta(ge=1, le=1 << 20)] = COLUMN_BYTES >> 20
    """Maximum memory for cached node scores, in MiB. It affects only how much is computed again, never a decision."""
    scheduling_budget: Annotated[int, Meta(ge=0, le=1 << 40)] = SCHEDULING_BUDGET
    """Maximum cost of one namespace per cycle, in units of about a microsecond; the rest of its jobs wait for a later
    cycle. 0 means no limit.
    """
    leader_election: LeaderElection = LeaderElection()
    gang_bind_timeout: Annotated[float, Meta(ge=1, le=86400)] = 60.0
    bind_volumes_timeout: Annotated[float, Meta(ge=1, le=86400)] = 600.0
    scheduled_events: bool = True
    """Write a Scheduled event for each bound pod that is not in a gang."""
    stall_timeout: Span = 30.0
    """With work pending and no cycle finished for this long, a warning shows the stack; 0: never."""
    unhealthy_after: Span = 300.0
    """With work pending and no cycle finished for this long, `/healthz` fails; 0: never."""
    http_address: str = ":10259"
    """Address of /healthz, /readyz, /metrics and /debug, as `host:port`; "" serves none."""
    report_to: str | None = None
    """Kubeconfig of the hub to report free capacity to."""
    report_as: str = ""
    """Name of this cluster's ManagedCluster on the hub."""
    report_lifetime: Annotated[float, Meta(ge=30, le=86400)] = 120.0
    """Time until a report expires. After half of it, an unchanged report is written again."""
    feed_socket: str | None = None
    """Unix domain socket for a page in another process or container (`fairway web --feed`)."""
    web: str | None = None
    """Address of a page, as `host:port`; it is served by a process that this one starts."""
    web_cert: str | None = None
    """TLS certificate of the page, in PEM; reloaded when it changes. Without it the page uses plain HTTP."""
    web_key: str | None = None
    """Private key of the certificate."""
    web_access: Literal["auto", "token", "cluster"] = "auto"
    """How users sign in: `token`, with one token made at the start; `cluster`, with their tokens of the API server and
    their own permissions; `auto` is `token` on a loopback address, else `cluster`."""
    web_hosts: tuple[str, ...] = ()
    """Host names (with ports, if any) that the page accepts with cluster tokens; empty means any."""
    allow_actions: bool = False
    """Allow users to cancel, hold and reprioritise jobs on the page, with their own permissions."""
    web_history: str | None = None
    """File for the page's history. Defaults to keeping it in memory."""
    report_scores: bool = False
    """Also report free capacity as an AddOnPlacementScore, which Open Cluster Management's own placement can use."""
    record: str | None = None
    """Folder to record every cycle in, for `fairway replay`."""
    record_megabytes: Number = 1024
    """Maximum size of the recording, in MB; the oldest cycles are deleted first."""
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


def read_settings(path: str | None, flags: dict[str, Any]) -> RunSettings:
    """The settings of the file, overridden by flags; InputError says what is wrong, and where."""
    given: dict[str, Any] = {}
    settings = RunSettings()
    if path is not None:
        document = read_configuration(Path(path), API_VERSION, KIND)
        settings = document.as_struct(RunSettings)
        given = {name: value for name, value in document.fields.items() if value is not None}
    for name, value in flags.items():
        part, _, inner = name.partition(".")
        if inner:
            given[part] = {**given.get(part, {}), inner: value}
        else:
            given[part] = value
    if flags:
        settings = _with_flags(given)
    _check(settings)
    return settings


def _with_flags(given: dict[str, Any]) -> RunSettings:
    """The file has already been checked, so any error left is that of a flag."""
    settings, findings = fit(given, RunSettings)
    for path, message in findings:
        raise InputError(f"flags: {path_text(path)}: {message}")
    return settings


def _check(settings: RunSettings) -> None:
    if settings.policy and settings.policy_config_map:
        raise InputError("policy and policyConfigMap are both set, expected at most one")
    if settings.policy_config_map is not None and not _CONFIG_MAP.fullmatch(settings.policy_config_map):
        raise InputError(
            f"policyConfigMap is {settings.policy_config_map!r}, expected namespace/name or namespace/name/key"
        )
    _check_lease(settings.leader_election)
    if bool(settings.report_to) != bool(settings.report_as):
        raise InputError(
            "reportTo and reportAs must be set together: the kubeconfig of a hub, and this cluster's name on it"
        )
    if settings.web is None and (
        settings.allow_actions or settings.web_hosts or settings.web_access != "auto" or settings.web_cert
    ):
        raise InputError("allowActions, webAccess, webHosts and webCert configure the page and require web")
    if bool(settings.web_cert) != bool(settings.web_key):
        raise InputError("webCert and webKey must be set together: a certificate and its key")
    if settings.web is not None and settings.feed_socket is not None:
        raise InputError(
            "web and feedSocket are both set, expected at most one: a page is either started here or connects"
        )
    if not settings.scheduler_names or not all(settings.scheduler_names):
        raise InputError("schedulerNames is empty, expected at least one name")


def _check_lease(lease: LeaderElection) -> None:
    """Check the lease even if it is not used: a file must not become invalid because of a flag."""
    for field, name in (("name", lease.name), ("namespace", lease.namespace)):
        if not _NAME.fullmatch(name) and not (field == "namespace" and name == ""):
            raise InputError(
                f"leaderElection.{field} is {name!r}, expected a name of lower-case letters, digits, - and ."
            )
    if not lease.retry < lease.renew_deadline < lease.duration:
        values = f"{lease.retry}, {lease.renew_deadline} and {lease.duration}"
        raise InputError(f"leaderElection: retry, renewDeadline and duration are {values}, expected increasing values")
