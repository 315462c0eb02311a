"""Claims in virtual time: allocated when a pod is bound, kept while it lives, given to the next when it is over."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from fairway.api.devices import ResourceClaim
from fairway.api.policy import default_policy
from fairway.app.recordings import read_cycle, recording_to
from fairway.clock import SECOND
from fairway.devices.track.ledger import device_ledger
from fairway.drive.recording import Recorder, plan_digest
from fairway.resources.quantity import parse_quantity
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.run import RunOptions, Simulation
from fairway.sim.scenario import parse_scenario
from fairway.state import invariants

SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: %(node)s-gpus}
spec:
  driver: gpu.example.com
  nodeName: %(node)s
  pool: {name: %(node)s, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: big-0, attributes: {kind: {string: gpu}}, capacity: {memory: {value: 80Gi}}}
  - {name: big-1, attributes: {kind: {string: gpu}}, capacity: {memory: {value: 80Gi}}}
  - {name: small-0, attributes: {kind: {string: gpu}}, capacity: {memory: {value: 24Gi}}}
  - name: part-0
    attributes: {kind: {string: mig}}
    capacity: {memory: {value: 40Gi}}
    allowMultipleAllocations: true
---
apiVersion: v1
kind: Node
metadata: {name: %(node)s}
status: {allocatable: {cpu: "32", memory: 64Gi, pods: "110"}}
---
"""

CLASSES = """
kind: ResourceClass
metadata: {name: big}
spec:
  resourceSelector:
  - matchExpressions:
    - {key: Kind, operator: In, values: [gpu]}
    - {key: memory, operator: GtEq, values: [40Gi]}
---
kind: ResourceClass
metadata: {name: small}
spec:
  resourceSelector:
  - matchExpressions:
    - {key: Kind, operator: In, values: [gpu]}
    - {key: memory, operator: Lt, values: [40Gi]}
---
kind: ResourceClass
metadata: {name: mig}
spec:
  resourceSelector:
  - matchExpressions: [{key: Kind, operator: In, values: [mig]}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared, namespace: default}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: big}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: small-first, namespace: default}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        firstAvailable: [{name: small, deviceClassName: small}, {name: big, deviceClassName: big}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: part, namespace: default}
spec:
  spec:
    devices:
      requests:
      - {name: part, exactly: {deviceClassName: mig, capacity: {requests: {memory: 15Gi}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two-big, namespace: default}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: big, count: 2}}]}}}
---
"""


def pod(name: str, entry: str, arrive: int, run: int) -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  annotations: {{sim.fairway.dev/arrive: {arrive}s, sim.fairway.dev/run: {run}s}}
spec:
  terminationGracePeriodSeconds: 3
  resourceClaims: [{{name: c, {entry}}}]
  containers: [{{name: main, resources: {{requests: {{cpu: "1", memory: 1Gi}}, claims: [{{name: c}}]}}}}]
---
"""


class Played:
    """A run that is looked at after every step."""

    def __init__(
        self, folder: Path, pods: list[str], *, nodes: int = 1, more: str = "", recorder: Recorder | None = None
    ) -> None:
        world = "".join(SLICE % {"node": f"n{number}"} for number in range(nodes)) + CLASSES
        (folder / "cluster.yaml").write_text(world)
        (folder / "jobs.yaml").write_text("".join(pods))
        text = f"cluster: {{manifests: [cluster.yaml]}}\nworkload: {{manifests: [{{file: jobs.yaml}}]}}\n{more}"
        scenario = parse_scenario(text, folder / "s.yaml")
        options = RunOptions(recorder_of=None if recorder is None else lambda cluster: recorder)
        self.simulation = Simulation(scenario, default_policy(default_registry().catalog), options)
        self.devices: dict[str, set[str]] = {}
        """By claim: all that it ever had."""

    def until(self, seconds: float) -> Played:
        loop, end = self.simulation.loop, self.simulation.scenario.start + int(seconds * SECOND)
        while (when := loop.next_time) is not None and when <= end:
            loop.step()
            self._look()
        return self

    def _look(self) -> None:
        """No device is given twice, and no capacity of a shared one."""
        invariants.check(self.simulation.state)
        taken, memory = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for claim in self.claims.values():
            for result in claim.status.allocation.devices.results if claim.status.allocation else ():
                device = (result.pool, result.device)
                self.devices.setdefault(claim.metadata.name, set()).add(f"{result.pool}/{result.device}")
                consumed = result.consumed_capacity
                taken[device] += not consumed
                memory[device] += sum(parse_quantity(text).nanos for text in consumed.values())
        assert max(taken.values(), default=0) <= 1
        assert max(memory.values(), default=0) <= parse_quantity("40Gi").nanos
        for claim in self.claims.values():
            assert bool(claim.status.allocation) == bool(claim.status.reserved_for)

    @property
    def claims(self) -> dict[str, ResourceClaim]:
        return {claim.metadata.name: claim for claim in self.simulation.state.devices.claims.values()}

    @property
    def users(self) -> dict[str, list[str]]:
        return {name: [user.name for user in claim.status.reserved_for] for name, claim in sorted(self.claims.items())}

    @property
    def running(self) -> list[str]:
        pods = self.simulation.cluster.pods.values()
        return sorted(pod.pod.metadata.name for pod in pods if pod.started is not None)

    def held(self) -> set[str]:
        """What the scheduler takes for held, in a run in which nothing is left to be guessed."""
        ledger = device_ledger(self.simulation.state)
        return {
            f"{node}/{facts.inventory.slots[allocation.slot].device.name} {allocation.holder}"
            for node, facts in ledger.nodes_by_name().items()
            for allocation in facts.allocations
        }


BIG = "resourceClaimName: shared"
FIRST = "resourceClaimTemplateName: small-first"
PART = "resourceClaimTemplateName: part"
PAIR = "resourceClaimTemplateName: two-big"
DELAYS = pytest.mark.parametrize("delay", ["0s", "2s"])


@DELAYS
def test_a_claim_by_name_is_its_users_together_and_free_after_the_last(tmp_path: Path, delay: str) -> None:
    pods = [pod("a", BIG, 0, 60), pod("b", BIG, 10, 100), pod("pair", PAIR, 20, 30)]
    played = Played(tmp_path, pods, more=f"timing: {{startDelay: {delay}}}")
    assert played.until(15).users == {"shared": ["a", "b"]}
    assert played.held() == {"n0/big-0 default/a"}
    assert played.until(70).users == {"shared": ["b"]}
    assert played.running == ["b"]
    assert played.held() == {"n0/big-0 default/b"}
    assert played.until(130).users == {"pair-c": ["pair"], "shared": []}
    assert played.held() == {"n0/big-0 default/pair", "n0/big-1 default/pair"}
    assert played.until(1000).users == {"shared": []}
    assert not played.held()
    assert not played.simulation.cluster.jobs


@DELAYS
def test_a_claim_from_a_template_lives_as_long_as_its_pod(tmp_path: Path, delay: str) -> None:
    pods = [pod(name, FIRST, 0, 60) for name in ("a", "b", "c", "d")]
    played = Played(tmp_path, pods, more=f"timing: {{startDelay: {delay}}}").until(30)
    assert played.users == {"a-c": ["a"], "b-c": ["b"], "c-c": ["c"], "shared": []}
    taken = {name: claim.status.allocation for name, claim in played.claims.items()}
    requests = [result.request for found in taken.values() if found for result in found.devices.results]
    assert requests == ["gpu/small", "gpu/big", "gpu/big"]
    statuses = {
        key: [(made.name, made.resource_claim_name) for made in found.pod.status.resource_claim_statuses]
        for key, found in played.simulation.cluster.pods.items()
    }
    assert statuses["default/b"] == [("c", "b-c")]
    assert statuses["default/d"] == []
    assert played.until(90).running == ["d"]
    assert played.devices["d-c"] == {"n0/small-0"}
    assert played.until(1000).users == {"shared": []}


@DELAYS
def test_parts_of_a_device_are_given_back(tmp_path: Path, delay: str) -> None:
    pods = [pod("a", PART, 0, 60), pod("b", PART, 0, 90), pod("c", PART, 0, 60)]
    played = Played(tmp_path, pods, more=f"timing: {{startDelay: {delay}}}")
    assert played.until(30).running == ["a", "b"]
    assert played.until(75).running == ["b", "c"]
    assert played.until(1000).held() == set()


def test_whoever_loses_its_node_loses_its_devices_and_is_given_others(tmp_path: Path) -> None:
    pods = [pod("a", BIG, 0, 60), pod("b", FIRST, 0, 60), pod("c", PART, 0, 60)]
    more = "timing: {startDelay: 2s}\nfailures: [{node: n0, at: 30s, lasts: 1000s}]"
    played = Played(tmp_path, pods, nodes=2, more=more)
    assert {name.split("/")[0] for name in played.until(20).held()} == {"n0", "n1"}
    assert played.until(40).held() == {"n1/big-0 default/a", "n1/part-0 default/c", "n1/small-0 default/b"}
    assert played.users == {"b-c": ["b"], "c-c": ["c"], "shared": ["a"]}
    assert played.until(2000).held() == set()


def test_who_is_told_to_go_keeps_its_devices_until_it_is_gone(tmp_path: Path) -> None:
    pods = [pod("a", BIG, 0, 60), pod("b", FIRST, 0, 60)]
    played = Played(tmp_path, pods, nodes=2, more="changes: [{at: 30s, drain: n0}]")
    before = played.until(20).held()
    assert played.until(31).held() == before
    assert played.until(34).held() == {"n1/big-0 default/a", "n1/small-0 default/b"}


def test_claims_are_made_under_names_that_are_free(tmp_path: Path) -> None:
    taken = CLASSES.replace("name: shared", "name: a-c")
    played = Played(tmp_path, [pod("a", FIRST, 0, 60)])
    (tmp_path / "cluster.yaml").write_text(SLICE % {"node": "n0"} + taken)
    played.simulation = Simulation(played.simulation.scenario, default_policy(default_registry().catalog))
    assert played.until(30).users == {"a-c": [], "a-c-2": ["a"]}
    assert played.until(90).users == {"a-c": []}


def test_a_recorded_run_is_decided_the_same_again(tmp_path: Path) -> None:
    policy = default_policy(default_registry().catalog)
    pods = [pod("a", BIG, 0, 40), pod("b", BIG, 10, 60), pod("c", FIRST, 5, 30), pod("d", PART, 0, 20)]
    pods += [pod("e", PAIR, 12, 30), pod("f", FIRST, 15, 30)]
    with recording_to(tmp_path / "log", policy) as log:
        played = Played(tmp_path, pods, more="timing: {startDelay: 1s}", recorder=log).until(1000)
    assert played.simulation.scheduler.cycles > 4
    for number in range(played.simulation.scheduler.cycles):
        logged = read_cycle(tmp_path / "log", number)
        plan = decide_and_explain(logged.state, policy, logged.now)
        assert plan_digest(plan) == logged.digest


def test_pods_that_wait_in_the_cluster_are_left_out_and_counted(tmp_path: Path) -> None:
    """They have no run time and would never end: jobs come by the workload."""
    (tmp_path / "cluster.yaml").write_text(SLICE % {"node": "n0"} + CLASSES + pod("a", FIRST, 0, 60))
    job = "{name: b, request: {cpu: 1}, run: 10s}"
    scenario = parse_scenario(
        f"cluster: {{manifests: [cluster.yaml]}}\nworkload: {{jobs: [{job}]}}", tmp_path / "s.yaml"
    )
    result = Simulation(scenario, default_policy(default_registry().catalog)).run()
    assert result.report.metrics.finished == 1
    assert any("1 pod(s) without a node, such as a, are left out" in text for text in result.report.warnings)


@DELAYS
def test_limits_that_a_device_class_serves_are_told_by_a_claim_that_goes_with_the_pod(
    tmp_path: Path, delay: str
) -> None:
    expression = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("60Gi")) >= 0'
    spec = {"extendedResourceName": "example.com/big", "selectors": [{"cel": {"expression": expression}}]}
    serving = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "large"}, "spec": spec}
    limit = [
        pod(name, "", 0, run)
        .replace("  resourceClaims: [{name: c, }]\n", "")
        .replace("claims: [{name: c}]", "limits: {example.com/big: 1}")
        for name, run in (("a", 60), ("b", 60), ("c", 60))
    ]
    played = Played(tmp_path, limit, more=f"timing: {{startDelay: {delay}}}")
    with (tmp_path / "cluster.yaml").open("a") as file:
        file.write(json.dumps(serving))
    played.simulation = Simulation(played.simulation.scenario, default_policy(default_registry().catalog))
    assert played.until(30).running == ["a", "b"]
    assert played.held() == {"n0/big-0 default/a", "n0/big-1 default/b"}
    assert sorted(name.partition("-extended-resources-")[0] for name in played.claims) == ["a", "b", "shared"]
    assert played.until(90).running == ["c"]
    assert played.held() == {"n0/big-0 default/c"}
    assert played.until(1000).users == {"shared": []}
    assert played.held() == set()
