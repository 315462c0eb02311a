"""The one table of hooks: every question that a plugin can be asked, and all that is said of it anywhere.

From it come the flags of a policy (`catalog`), the calling of plugins and the checking of their answers
(`scheduler/framework`), and the tables in the documentation. A new hook is one entry here, one protocol in
`scheduler/framework/hooks.py`, and the place that asks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType


class AnswerKind(Enum):
    """The type of a hook's answer; the guard checks the answers of external plugins against it."""

    NOTHING = auto()
    KEY = auto()
    YES_OR_NO = auto()
    COUNT = auto()
    VERDICT = auto()
    CHECKS = auto()
    LIMITS = auto()
    SCORES = auto()
    SCORES_OR_NONE = auto()
    BASIS = auto()
    DEVICE = auto()
    STRATEGIES = auto()
    DESERVED = auto()
    OWED = auto()
    KEY_TEXTS = auto()
    ORDERED_BY = auto()
    ENTITLED_BY = auto()
    TASKS = auto()
    UNITS = auto()


class Combination(Enum):
    """How the answers of several plugins are combined. The value is what the documentation says."""

    TOLD = "-"
    IN_ORDER = "compared in the order of the tiers"
    ANY = "any"
    ALL = "all must agree"
    LEAST = "the least"
    EACH_ALLOWS = "all must allow"
    EACH_PASSES = "all must pass"
    SUM = "added up"
    FIRST = "that of the first plugin that has the hook"
    EACH = "each counts"
    COMMON = "what one protects is safe from all"


class OnFailure(Enum):
    """The effect of a failure of an external plugin. The value is what the documentation says."""

    DROPS_OUT = "left out, and the cycle is decided again"
    ALL_HOOKS = "every hook of the plugin fails"
    REFUSES = "refused"
    PASSES_NOWHERE = "no node passes"
    ONE = "one"
    NONE = "none"
    EXCEEDS_ALL = "more than there is"
    COUNTS_AS_YES = "counts as true"
    COUNTS_AS_NO = "counts as false"


@dataclass(frozen=True, slots=True)
class HookEntry:
    """One hook. A hook without its own flag is disabled by the flag of the hook that it `follows`, if any."""

    name: str
    given: str
    says: str
    answer: AnswerKind
    combination: Combination
    failure: OnFailure
    flag: str = ""
    aliases: tuple[str, ...] = ()
    follows: str = ""
    in_columns: bool = False
    """Whether its answers become columns over nodes that are kept from cycle to cycle."""
    optional: int = 0
    """How many trailing arguments an external plugin's method may omit, because they were added later."""

    @property
    def switch(self) -> str:
        """The hook whose flag disables this one; a hook without any flag is always on."""
        return self.follows or self.name


def _entries() -> Iterator[HookEntry]:
    nothing, told = AnswerKind.NOTHING, Combination.TOLD
    yield HookEntry("open", "session", "nothing; called when a cycle begins", nothing, told, OnFailure.ALL_HOOKS)
    yield from _order()
    yield from _verdicts()
    yield from _queues()
    yield from _nodes()
    yield from _devices()
    yield from _evictions()
    says = "nothing; told of every change to what is allocated to a job"
    yield HookEntry("on_allocate", "job, shape, count", says, nothing, told, OnFailure.DROPS_OUT)


def _order() -> Iterator[HookEntry]:
    says = "a number, a text, or a tuple of them; small goes first"
    for name, given, flag in (
        ("queue_key", "queue", "enableQueueOrder"),
        ("namespace_key", "account", "enableNamespaceOrder"),
        ("job_key", "job", "enableJobOrder"),
        ("task_key", "task", "enableTaskOrder"),
    ):
        yield HookEntry(name, given, says, AnswerKind.KEY, Combination.IN_ORDER, OnFailure.DROPS_OUT, flag)
    says = "its key as some `KeyText`: parts for people, whose values compare as the key does"
    for level, given in (("queue", "queue"), ("namespace", "account"), ("job", "job")):
        key, texts, each = f"{level}_key", AnswerKind.KEY_TEXTS, Combination.EACH
        yield HookEntry(f"{key}_texts", given, says, texts, each, OnFailure.DROPS_OUT, follows=key)
    says = "some `OrderedBy`: what the keys of queues, namespaces and jobs compare besides age; without it, anything"
    yield HookEntry("ordered_by", "", says, AnswerKind.ORDERED_BY, Combination.EACH, OnFailure.DROPS_OUT)


def _verdicts() -> Iterator[HookEntry]:
    yield HookEntry(
        "overused",
        "queue",
        "whether the queue may take no more within its deserved share",
        AnswerKind.YES_OR_NO,
        Combination.ANY,
        OnFailure.COUNTS_AS_YES,
        "enableOverused",
        ("enabledOverused",),
    )
    yield HookEntry(
        "allocatable",
        "queue, shape, count, lending",
        "how many of `count` like tasks the queue may take: within what it deserves, or of idle capacity if `lending`",
        AnswerKind.COUNT,
        Combination.LEAST,
        OnFailure.NONE,
        "enableAllocatable",
        ("enabledAllocatable",),
        optional=1,
    )
    yield HookEntry(
        "enqueueable",
        "job",
        "a `Verdict`: whether the job may enter",
        AnswerKind.VERDICT,
        Combination.EACH_ALLOWS,
        OnFailure.REFUSES,
        "enableJobEnqueued",
        ("enabledJobEnqueued",),
    )
    yield HookEntry(
        "job_valid",
        "job",
        "a `Verdict`: whether the job can run at all",
        AnswerKind.VERDICT,
        Combination.EACH_ALLOWS,
        OnFailure.REFUSES,
        "enableJobValid",
    )
    yield HookEntry(
        "job_ready",
        "job",
        "whether what is placed is enough to keep",
        AnswerKind.YES_OR_NO,
        Combination.ALL,
        OnFailure.COUNTS_AS_NO,
        "enableJobReady",
    )
    yield HookEntry(
        "job_pipelined",
        "job",
        "whether others may be evicted for it; the capacity that they would free counts in `job.ready`",
        AnswerKind.YES_OR_NO,
        Combination.ALL,
        OnFailure.COUNTS_AS_NO,
        "enableJobPipelined",
    )


def _queues() -> Iterator[HookEntry]:
    says = "what each queue deserves, by its name: an amount for each resource, or None for no limit"
    yield HookEntry("deserved", "", says, AnswerKind.DESERVED, Combination.FIRST, OnFailure.DROPS_OUT)
    says = "whether idle capacity goes to other queues than those that deserve it"
    yield HookEntry("lends", "", says, AnswerKind.YES_OR_NO, Combination.ANY, OnFailure.COUNTS_AS_NO)
    says = "a `Verdict`: which limit of its queue keeps the job from its next step, for the reason it is given"
    yield HookEntry("not_allowed", "job", says, AnswerKind.VERDICT, Combination.EACH_ALLOWS, OnFailure.REFUSES)
    says = "whether a queue that reserves so much more (by row) leaves the others what they are guaranteed"
    yield HookEntry(
        "leaves_guarantees", "queue, need", says, AnswerKind.YES_OR_NO, Combination.ALL, OnFailure.COUNTS_AS_NO
    )
    says = "by row, of what other queues are guaranteed: the amount they have, and the amount they still request"
    yield HookEntry("owed", "queue, reserved", says, AnswerKind.OWED, Combination.EACH, OnFailure.EXCEEDS_ALL)


def _nodes() -> Iterator[HookEntry]:
    given, passes = "shape, nodes", Combination.EACH_PASSES
    yield HookEntry(
        "feasible",
        given,
        "some `Check(passes, text)`: where it may go, and what to say of the other nodes",
        AnswerKind.CHECKS,
        passes,
        OnFailure.PASSES_NOWHERE,
        "enablePredicate",
        in_columns=True,
    )
    says = "the same, from labels, taints, readiness and size alone"
    yield HookEntry(
        "feasible_static",
        given,
        says,
        AnswerKind.CHECKS,
        passes,
        OnFailure.PASSES_NOWHERE,
        follows="feasible",
        in_columns=True,
    )
    says = "how many like tasks a node takes at most in one go, or None"
    yield HookEntry("limit", given, says, AnswerKind.LIMITS, Combination.LEAST, OnFailure.ONE, follows="feasible")
    says = "whether a placement on one node changes what *others* mean to this shape"
    yield HookEntry(
        "looks_around",
        "shape",
        says,
        AnswerKind.YES_OR_NO,
        Combination.ANY,
        OnFailure.COUNTS_AS_YES,
        follows="feasible",
        in_columns=True,
    )
    says = "a float for each node, usually 0 to 100 times a weight; larger is better"
    total, drops = Combination.SUM, OnFailure.DROPS_OUT
    yield HookEntry("score", given, says, AnswerKind.SCORES, total, drops, "enableNodeOrder", in_columns=True)
    says = "the same, from labels and taints alone; None for no opinion"
    yield HookEntry(
        "score_static", given, says, AnswerKind.SCORES_OR_NONE, total, drops, follows="score", in_columns=True
    )
    says = "a float for each node to be reserved"
    yield HookEntry(
        "reserve_score",
        given,
        says,
        AnswerKind.SCORES,
        total,
        drops,
        "enableReserveScore",
        ("enableResourceNodeOrder",),
    )


def _devices() -> Iterator[HookEntry]:
    says = (
        "what its columns rest on besides shape and node, `()` for nothing; asked before `open`. Columns are kept "
        "while it is the same; those of an external plugin without it are computed again in every cycle"
    )
    yield HookEntry("basis", "state", says, AnswerKind.BASIS, Combination.EACH, OnFailure.DROPS_OUT)
    says = "strategies to choose devices by, the first first; asked before `open`. Without it no pod is given devices"
    yield HookEntry("device_strategies", "", says, AnswerKind.STRATEGIES, Combination.FIRST, OnFailure.DROPS_OUT)
    says = "the device of which a pod that requests a part of one takes it, or None if no device serves"
    yield HookEntry(
        "choose_device", "request, row, node, free", says, AnswerKind.DEVICE, Combination.FIRST, OnFailure.DROPS_OUT
    )


def _evictions() -> Iterator[HookEntry]:
    says, common, none = "those of the candidates that may be evicted", Combination.COMMON, OnFailure.NONE
    for name, flag in (("preemptable", "enablePreemptable"), ("reclaimable", "enableReclaimable")):
        yield HookEntry(name, "claimant, candidates", says, AnswerKind.TASKS, common, none, flag)
    says = "the same for all claimants at once: a boolean for each of `index.units`, which are evicted whole"
    for name in ("preemptable", "reclaimable"):
        yield HookEntry(f"{name}_units", "index", says, AnswerKind.UNITS, common, none, follows=name)
    says = "some `EntitledBy`: by what a job may take the place of another of its queue"
    yield HookEntry("entitled_by", "", says, AnswerKind.ENTITLED_BY, Combination.EACH, none, follows="preemptable")


HOOKS: Mapping[str, HookEntry] = MappingProxyType({entry.name: entry for entry in _entries()})
"""By name, in the order of the documentation."""

COLUMN_HOOKS = tuple(entry.name for entry in HOOKS.values() if entry.in_columns)
"""The hooks whose answers become columns over nodes."""


def hooks_table() -> Iterator[str]:
    """All hooks as a table in Markdown."""
    yield "| hook | answer | over all plugins | flag | if it fails |"
    yield "|---|---|---|---|---|"
    for hook in HOOKS.values():
        flag = HOOKS[hook.switch].flag
        cells = (f"`{hook.name}({hook.given})`", hook.says, hook.combination.value, f"`{flag}`" if flag else "-")
        yield f"| {' | '.join((*cells, hook.failure.value))} |"
