"""Names that other schedulers' policy files use and Fairway does not have, to say so instead of "unknown"."""

from __future__ import annotations

_VOLCANO = "Volcano"
_KAI = "KAI Scheduler"

_INSTEAD = {
    "sla": "the reserve action serves jobs that wait too long",
    "overcommit": "enqueue admits a job when its queue can take its minimum",
    "deviceshare": "see the devices plugin",
    "pdb": "disruption budgets are always respected",
    "rescheduling": "reclaim and preempt move room to those entitled to it",
    "enableHierarchy": "queues with a parent are always filled level by level",
    "enableJobStarving": "see the reserve action",
    "enabledVictim": "see enablePreemptable and enableReclaimable",
}

_PEERS: dict[str, dict[str, str]] = {
    "action": {
        _VOLCANO: "elect shuffle gangpreempt gangreclaim",
        _KAI: "consolidation stalegangeviction",
    },
    "plugin": {
        _VOLCANO: "cdp deviceshare extender jobp network-topology-aware nodegroup numaaware overcommit pdb "
        "rescheduling reservation resource-strategy-fit resourcequota sla task-topology tdm usage "
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


def peer_of(kind: str, name: str) -> str | None:
    """`nodegroup is a Volcano plugin that Fairway does not have`, if it is one."""
    for peer, names in _PEERS[kind].items():
        if name in names.split():
            instead = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
            return f"{name} is a {peer} {kind} that Fairway does not have{instead}"
    return None
