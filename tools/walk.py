"""`python -m tools.walk`: which modules run on the way of one pod from a file to its binding.

A newcomer who wants to follow that way has to read these. A module counts if one of its functions runs while a file
with one node and one pod is read, and one cycle decides on it; what runs on import only (tables, classes, decorators)
does not count, nor do the command line and the reasons, for the pod is bound. A *turn back* is a new module in a
package that the way had left before. `-v` lists the modules in the order of the way, with `- ` before each turn back.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from pathlib import Path
from types import FrameType

from fairway.api.manifests import load
from fairway.api.policy import Policy, default_policy, parse_policy
from fairway.scheduler.decide import decide
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import ClusterState

WANTED = 80
MANIFESTS = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "10"}
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: team}
spec:
  schedulerName: fairway
  containers: [{name: main, resources: {requests: {cpu: "1"}}}]
"""
SMALL_POLICY = (
    "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: drf}, {name: predicates}, {name: proportion}]}]"
)


def main() -> None:
    catalog = default_registry().catalog
    policies = {
        "the built-in policy": default_policy(catalog),
        "allocate alone": parse_policy(SMALL_POLICY, "small policy", catalog),
    }
    for name, policy in policies.items():
        modules = walk(policy)
        back = turns_back(modules)
        print(f"way of one pod, {name}: {len(modules)} modules (wanted: {WANTED}), {len(back)} turns back")
        if "-v" in sys.argv:
            print("\n".join(("- " if module in back else "  ") + module for module in modules))


def walk(policy: Policy) -> list[str]:
    """The modules that run, in the order of their first call."""
    seen: dict[str, None] = {}

    def profile(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("fairway.") and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            seen.setdefault(module)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pod.yaml"
        file.write_text(MANIFESTS)
        bind_one_pod(file, policy)  # so that what happens once, on import or in caches, is not on the way
        sys.setprofile(profile)
        try:
            bind_one_pod(file, policy)
        finally:
            sys.setprofile(None)
    return list(seen)


def bind_one_pod(file: Path, policy: Policy) -> None:
    state = ClusterState(["fairway"])
    state.upsert(load([str(file)]).objects)
    plan = decide(state, policy, 0)
    assert [binding.node for binding in plan.bindings] == ["n1"]


def turns_back(modules: list[str]) -> set[str]:
    left: set[str] = set()
    found: set[str] = set()
    here = ""
    for module in modules:
        package = module.rpartition(".")[0]
        if package != here:
            left.add(here)
            here = package
            if package in left:
                found.add(module)
    return found


if __name__ == "__main__":
    main()
