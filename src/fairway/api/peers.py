"""Policies of other schedulers: names that Fairway does not have, to say so instead of "unknown", and Volcano's
configuration, found in its ConfigMap or given bare.
"""

from __future__ import annotations

from fairway.api.hand_written import read_document
from fairway.errors import InputError, Problem

_VOLCANO = "Volcano"
_KAI = "KAI Scheduler"

_INSTEAD = {
    "overcommit": "the enqueue action has the argument overcommitFactor",
    "deviceshare": "see the devices plugin",
    "pdb": "disruption budgets are always respected",
    "rescheduling": "reclaim and preempt evict for jobs that are entitled to the capacity",
    "enableHierarchy": "queues with a parent are always filled level by level",
    "enableJobStarving": "see the reserve action",
    "enabledVictim": "see enablePreemptable and enableReclaimable",
}

_LEFT_OUT = {
    "cdp": "the cooldown time of a pod is always honoured",
    "extender": "see the page on plugins for how to extend Fairway",
    "jobp": "jobs are ordered by priority, gang and drf",
    "network-topology-aware": "the networkTopology of a PodGroup is always honoured",
    "nodegroup": "node affinity ties jobs to nodes",
    "numaaware": "the devices plugin keeps devices together; cpu pinning is left to the kubelet",
    "reservation": "see the reserve action",
    "resource-strategy-fit": "see nodeorder and binpack",
    "resourcequota": "quotas are left to the API server",
    "task-topology": "pod affinity keeps tasks together",
    "tdm": "time windows of nodes are not honoured",
    "usage": "requests count, measured usage does not",
    "volumebinding": "predicates checks volumes",
    "elect": "see the reserve action",
    "shuffle": "reclaim and preempt evict for jobs that are entitled to the capacity",
    "gangpreempt": "preempt evicts for whole gangs",
    "gangreclaim": "reclaim evicts for whole gangs",
    "metrics": "measured usage is not read",
}
"""What Fairway does instead, for names that can be omitted without loss."""

_PEERS: dict[str, dict[str, str]] = {
    "action": {
        _VOLCANO: "elect shuffle gangpreempt gangreclaim",
        _KAI: "consolidation stalegangeviction",
    },
    "plugin": {
        _VOLCANO: "cdp deviceshare extender jobp network-topology-aware nodegroup numaaware overcommit pdb "
        "rescheduling reservation resource-strategy-fit resourcequota task-topology tdm usage "
        "volumebinding",
        _KAI: "elastic gpupack gpusharingorder gpuspread kubeflow minruntime nodeavailability nodeplacement "
        "nominatednode podaffinity ray resourcetype snapshot taskorder topology",
    },
    "flag": {
        _VOLCANO: "enableHierarchy enablePreemptive enabledClusterOrder enableBestNode enableTargetJob "
        "enableReservedNodes enabledVictim enableJobStarving enabledHyperNodeOrder enabledHyperNodeGradient "
        "enabledSubJobReady enabledSubJobPipelined enabledSubJobOrder",
    },
    "argument": {
        _VOLCANO: "imagelocality.weight predicate.CacheEnable predicate.GPUSharingEnable "
        "predicate.ProportionalEnable overcommit-factor predicateErrorCacheEnable "
        "enableTopologyAwarePreemption",
    },
    "key": {_VOLCANO: "metrics"},
}


def volcano_has(kind: str, name: str) -> bool:
    """Whether a name is one of Volcano's without a counterpart in Fairway."""
    return name in _PEERS[kind].get(_VOLCANO, "").split()


def instead_of(kind: str, name: str) -> str:
    """The warning for a name of Volcano's in a policy that asks for compatibility."""
    instead = _INSTEAD.get(name) or _LEFT_OUT.get(name, "nothing is done instead")
    return f"{name} is a {_VOLCANO} {kind} without a counterpart here and is left out; {instead}"


COMPATIBILITY = "with `compatibility: volcano` at the top of the policy it is left out with a warning"

_CHECKS = (
    "NodeAffinity",
    "NodePorts",
    "TaintToleration",
    "PodAffinity",
    "NodeVolumeLimits",
    "VolumeZone",
    "PodTopologySpread",
    "VolumeBinding",
    "DynamicResourceAllocation",
)
ALWAYS_CHECKED = frozenset(f"predicate.{name}Enable" for name in _CHECKS)
"""Arguments of Volcano's predicates that enable checks: Fairway always makes all of them."""


def peer_of(kind: str, name: str) -> str | None:
    """`nodegroup is a Volcano plugin that Fairway does not have`, if it is one."""
    for peer, names in _PEERS[kind].items():
        if name in names.split():
            instead = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
            return f"{name} is a {peer} {kind} that Fairway does not have{instead}"
    return None


SUFFIX = ".conf"
_COMPATIBLE = "compatibility: volcano\n"


def volcano_configuration(text: str, source: str) -> str:
    """The Volcano configuration in a text, as a policy that omits names without a counterpart instead of
    refusing them.
    """
    found = _unwrapped(text, source)
    return found if "compatibility:" in found else _COMPATIBLE + found


def _unwrapped(text: str, source: str) -> str:
    problems: list[Problem] = []
    document = read_document(text, source, problems)
    if document is None or problems:
        return text  # reading it as a policy reports what is wrong, and where
    data = document.data
    if not isinstance(data, dict) or data.get("kind") != "ConfigMap":
        return text
    entries = data.get("data")
    if not isinstance(entries, dict) or not all(isinstance(value, str) for value in entries.values()):
        raise InputError(f"{source}: data: expected a map of texts, one of them named volcano-scheduler{SUFFIX}")
    names = [name for name in entries if str(name).endswith(SUFFIX)]
    if len(names) != 1:
        listed = ", ".join(sorted(map(str, entries))) or "nothing"
        raise InputError(f"{source}: data: expected exactly one entry that ends in {SUFFIX}, there is {listed}")
    return str(entries[names[0]])
