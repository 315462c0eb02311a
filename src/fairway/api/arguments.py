"""The arguments of Fairway's own actions and plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from fairway.api.classes import DeviceStrategy
from fairway.api.settings import Arguments, Count, Name, Percent, Seconds, Weight, setting

SafetyFactor = Annotated[float, msgspec.Meta(ge=1, le=100)]


class BackfillArguments(Arguments, frozen=True):
    mode: Annotated[
        Literal["besteffort", "easy", "conservative"],
        setting(
            "`besteffort` places pods that request nothing. `easy` also lets short jobs run ahead of the "
            "first job that waits, `conservative` ahead of any, as long as no promised start moves."
        ),
    ] = "besteffort"
    overrun: Annotated[
        Literal["evict", "allow"],
        setting(
            "What happens to a job that outlives its expected run time. With `evict` it is evicted as soon as its "
            "room is promised to another, so that promises hold. With `allow` it goes on: its end is put off to twice "
            "its time, then to twice that, and promises that rest on it are soft, which means that they may move."
        ),
    ] = "evict"
    estimate: Annotated[
        Literal["none", "user-history"],
        setting(
            "Where the run time of a job that states none comes from: nowhere, or the median of past runs "
            "of that namespace and job name. Whatever rests on an estimate is marked as one."
        ),
    ] = "none"
    safety_factor: Annotated[SafetyFactor, setting("An estimated run time is multiplied by this.")] = 1.5


class ReserveArguments(Arguments, frozen=True):
    starving_job_time_threshold: Annotated[
        Seconds, setting("A job that has waited longer than this is starving, and may reserve nodes.")
    ] = 172_800
    reserved_node_percent: Annotated[
        Percent, setting("At most this part of the ready nodes carries reservations, rounded up.")
    ] = 50
    max_reserved_nodes: Annotated[
        Count | None, setting("At most this many nodes carry reservations; no such limit if not given.")
    ] = None
    reservation_timeout: Annotated[
        Seconds,
        setting("A reservation not used after this time is released, and the job may reserve again. 0 is never."),
    ] = 86_400
    min_starving_after: Annotated[
        Seconds | None,
        setting(
            "The least threshold that a job may set for itself by the annotation "
            "`fairway.dev/starving-after`; if not given, a job may only raise the threshold."
        ),
    ] = None
    exclude_queues: Annotated[tuple[Name, ...], setting("Jobs of these queues never reserve.")] = ()
    exclude_node_selector: Annotated[
        Mapping[str, str],
        setting("Nodes with all these labels are never reserved; an empty map excludes none."),
    ] = {}


class EvictionArguments(Arguments, frozen=True):
    """Both actions that evict take the same."""

    min_runtime: Annotated[Seconds, setting("A pod that has run for less is never a victim.")] = 0
    preemption_delay: Annotated[Seconds, setting("A job must have waited this long before it may evict.")] = 0
    max_evictions_per_cycle: Annotated[
        Count | None,
        setting("At most this many pods are evicted in one cycle; a job that needs more waits, and says so."),
    ] = None
    nomination_timeout: Annotated[
        Seconds, setting("Room made by evictions is held this long for the job it was made for.")
    ] = 600


class DrfArguments(Arguments, frozen=True):
    priority_first: Annotated[bool, setting("Compare the priority of jobs before the shares of their namespaces.")] = (
        False
    )


class ProportionArguments(Arguments, frozen=True):
    lending: Annotated[
        Literal["default", "none"],
        setting(
            "`default` lends what a queue leaves idle to others, who give it back on demand; with `none` "
            "each queue keeps its share, and no queue goes above its own."
        ),
    ] = "default"


class NodeOrderArguments(Arguments, frozen=True):
    least_allocated: Annotated[
        Weight, setting("Weight of preferring emptier nodes.", aliases=["leastrequested.weight"])
    ] = 1
    most_allocated: Annotated[
        Weight, setting("Weight of preferring fuller nodes.", aliases=["mostrequested.weight"])
    ] = 0
    balanced_allocation: Annotated[
        Weight,
        setting("Weight of preferring nodes whose resources are used evenly.", aliases=["balancedresource.weight"]),
    ] = 1
    node_affinity: Annotated[Weight, setting("Weight of preferred node affinity.", aliases=["nodeaffinity.weight"])] = 2
    pod_affinity: Annotated[
        Weight, setting("Weight of preferred pod affinity and anti-affinity.", aliases=["podaffinity.weight"])
    ] = 2
    taint_toleration: Annotated[
        Weight, setting("Weight of avoiding PreferNoSchedule taints.", aliases=["tainttoleration.weight"])
    ] = 3
    topology_spread: Annotated[
        Weight, setting("Weight of soft topology spread constraints.", aliases=["podtopologyspread.weight"])
    ] = 2


class BinPackArguments(Arguments, frozen=True):
    weight: Annotated[Weight, setting("Weight of the whole score.", aliases=["binpack.weight"])] = 1
    cpu: Annotated[Weight, setting("Weight of cpu within it.", aliases=["binpack.cpu"])] = 1
    memory: Annotated[Weight, setting("Weight of memory within it.", aliases=["binpack.memory"])] = 1
    resources: Annotated[
        Mapping[str, Weight],
        setting("Weights of further resources within it, by resource name.", aliases=["binpack.resources"], each=1),
    ] = {}


class DevicesArguments(Arguments, frozen=True):
    strategy: Annotated[
        tuple[DeviceStrategy, ...],
        setting("How devices are chosen on a node: the first strategy decides, the next ones break its ties."),
    ] = ("first-fit",)


class FgdArguments(Arguments, frozen=True):
    weight: Annotated[Weight, setting("Weight of the score.")] = 1
