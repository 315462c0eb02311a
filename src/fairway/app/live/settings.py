"""`RunSettings`: everything that `fairway run` can be told, by flags or by a file of `kind: FairwayConfiguration`.

A field is one setting: its name in the file is the field's in camel case, the flag has hyphens. A flag wins over the
file, and the file over the default. Spans are in seconds.
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
from fairway.app.live.election import LeaderElection, Span
from fairway.errors import InputError
from fairway.state.budgets import SCHEDULING_BUDGET
from fairway.state.cluster import COLUMN_BYTES

API_VERSION = "fairway.dev/v1alpha1"
KIND = "FairwayConfiguration"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_CONFIG_MAP = re.compile(rf"{_NAME.pattern}/{_NAME.pattern}(/[A-Za-z0-9._-]{{1,253}})?")

Number = Annotated[int, Meta(ge=1, le=1_000_000)]


class RunSettings(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """See the module."""

    kubeconfig: str | None = None
    context: str | None = None
    scheduler_names: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    policy: str | None = None
    """A file; without it and without a ConfigMap the built-in policy applies."""
    policy_config_map: str | None = None
    """`namespace/name`, or `namespace/name/key` where the key is not `policy.yaml`."""
    policy_interval: Annotated[float, Meta(ge=0.1, le=86400)] = 5.0
    """How often the policy is looked at again."""
    shadow_policy: str | None = None
    shadow_every: Number = 1
    """Decide by the shadow policy in every n-th cycle."""
    dry_run: bool = False
    min_interval: Span = 0.05
    max_in_flight_binds: Number = 2000
    connections: Annotated[int, Meta(ge=1, le=1000)] = 32
    """Requests that write at the same time."""
    column_memory: Annotated[int, Meta(ge=1, le=1 << 20)] = COLUMN_BYTES >> 20
    """MiB that scores of nodes, kept from cycle to cycle, take at most. It decides how much is computed again, and
    nothing else.
    """
    scheduling_budget: Annotated[int, Meta(ge=0, le=1 << 40)] = SCHEDULING_BUDGET
    """What the jobs of a namespace may cost in one cycle, in units of about a microsecond; what is more waits for a
    later cycle. 0 is no limit.
    """
    leader_election: LeaderElection = LeaderElection()
    gang_bind_timeout: Annotated[float, Meta(ge=1, le=86400)] = 60.0
    bind_volumes_timeout: Annotated[float, Meta(ge=1, le=86400)] = 600.0
    scheduled_events: bool = True
    """An event for each lone pod that is bound."""
    stall_timeout: Span = 30.0
    """With work pending and no cycle finished for this long, a warning shows the stack; 0: never."""
    unhealthy_after: Span = 300.0
    """With work pending and no cycle finished for this long, `/healthz` fails; 0: never."""
    http_address: str = ":10259"
    """Of /healthz, /readyz, /metrics and /debug, as `host:port`; "" serves none."""
    report_to: str | None = None
    """The kubeconfig of a hub to which free capacity is reported."""
    report_as: str = ""
    """The name of this cluster's ManagedCluster there."""
    report_lifetime: Annotated[float, Meta(ge=30, le=86400)] = 120.0
    """How long a report counts. Half of it after the last one, it is written again though nothing changed."""
    feed_socket: str | None = None
    """A Unix domain socket that a page (`fairway web --feed`) connects to, a process or container of its own."""
    web: str | None = None
    """Where a page is served by a process that this one starts, as `host:port`."""
    web_cert: str | None = None
    """The page's certificate, in PEM; read again when it changes. Without it the page speaks plain HTTP."""
    web_key: str | None = None
    """Its key."""
    web_access: Literal["auto", "token", "cluster"] = "auto"
    """What opens the page: `token`, one that is made at the start, for the one user of a loopback address; `cluster`,
    tokens of the API server, each of which sees what its user may; `auto` is the first on a loopback address."""
    web_hosts: tuple[str, ...] = ()
    """With tokens of the cluster: names (with ports where they have some) that requests may be made under; default any.
    """
    allow_actions: bool = False
    """Let users cancel, hold and reprioritise jobs from the page, with their own rights."""
    web_history: str | None = None
    """The file that the page keeps its history in; default in memory."""
    report_scores: bool = False
    """Report what is free as an AddOnPlacementScore, too, which Open Cluster Management's own placement can weigh."""
    record: str | None = None
    """A folder that every cycle is recorded in, for `fairway replay`."""
    record_megabytes: Number = 1024
    """How large the recording may become; the oldest cycles go first."""
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


def read_settings(path: str | None, flags: dict[str, Any]) -> RunSettings:
    """The file's settings with the flags that were given on top; InputError says what is wrong, and where."""
    given: dict[str, Any] = {}
    found = RunSettings()
    if path is not None:
        document = read_configuration(Path(path), API_VERSION, KIND)
        found = document.as_struct(RunSettings)
        given = {name: value for name, value in document.fields.items() if value is not None}
    for name, value in flags.items():
        part, _, inner = name.partition(".")
        if inner:
            given[part] = {**given.get(part, {}), inner: value}
        else:
            given[part] = value
    if flags:
        found = _with_flags(given)
    _check(found)
    return found


def _with_flags(given: dict[str, Any]) -> RunSettings:
    """The file was read before, so whatever is wrong now is wrong with a flag."""
    found, findings = fit(given, RunSettings)
    for path, message in findings:
        raise InputError(f"flags: {path_text(path)}: {message}")
    return found


def _check(settings: RunSettings) -> None:
    if settings.policy and settings.policy_config_map:
        raise InputError("policy and policyConfigMap are both given, expected one of them")
    if settings.policy_config_map is not None and not _CONFIG_MAP.fullmatch(settings.policy_config_map):
        raise InputError(
            f"policyConfigMap is {settings.policy_config_map!r}, expected namespace/name or namespace/name/key"
        )
    _check_lease(settings.leader_election)
    if bool(settings.report_to) != bool(settings.report_as):
        raise InputError("reportTo and reportAs go together: the kubeconfig of a hub, and this cluster's name there")
    if settings.web is None and (
        settings.allow_actions or settings.web_hosts or settings.web_access != "auto" or settings.web_cert
    ):
        raise InputError("allowActions, webAccess, webHosts and webCert are about the page, expected with web")
    if bool(settings.web_cert) != bool(settings.web_key):
        raise InputError("webCert and webKey go together: a certificate and its key")
    if settings.web is not None and settings.feed_socket is not None:
        raise InputError("web and feedSocket are both given, expected one: a page is started here, or connects")
    if not settings.scheduler_names or not all(settings.scheduler_names):
        raise InputError("schedulerNames is empty, expected at least one name")


def _check_lease(lease: LeaderElection) -> None:
    """Before anything is read, and also where no lease is kept: a file must not become wrong by another flag."""
    for field, name in (("name", lease.name), ("namespace", lease.namespace)):
        if not _NAME.fullmatch(name) and not (field == "namespace" and name == ""):
            raise InputError(f"leaderElection.{field} is {name!r}, expected a name of letters a to z, digits, - and .")
    if not lease.retry < lease.renew_deadline < lease.duration:
        found = f"{lease.retry} < {lease.renew_deadline} < {lease.duration}"
        raise InputError(f"leaderElection: expected retry < renewDeadline < duration, found {found}")
