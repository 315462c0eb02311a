"""Volumes in virtual time: bound or provisioned before their pods, in time or not at all."""

from __future__ import annotations

from pathlib import Path

from fairway.api.core import PersistentVolume, PersistentVolumeClaim
from fairway.api.policy import default_policy
from fairway.clock import SECOND
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.run import RunOptions, Simulation
from fairway.sim.scenario import parse_scenario
from fairway.state import invariants

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, topology.kubernetes.io/zone: a}}
status: {allocatable: {cpu: "4", memory: 64Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {kubernetes.io/hostname: n2, topology.kubernetes.io/zone: b}}
status: {allocatable: {cpu: "4", memory: 64Gi, pods: "110"}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disk}
provisioner: disk.example.com
volumeBindingMode: WaitForFirstConsumer
---
"""


def volume(name: str, node: str) -> str:
    return f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  storageClassName: local
  accessModes: [ReadWriteOnce]
  capacity: {{storage: 1Gi}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]
---
"""


def claim(name: str, storage_class: str) -> str:
    return f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, namespace: default}}
spec: {{storageClassName: {storage_class}, accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
---
"""


def pod(name: str, source: str, arrive: int = 0, run: int = 10, group: str = "") -> str:
    notes = f"sim.fairway.dev/arrive: {arrive}s, sim.fairway.dev/run: {run}s"
    if group:
        notes += f", scheduling.k8s.io/group-name: {group}"
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{{notes}}}}}
spec:
  volumes: [{{name: v, {source}}}]
  containers: [{{name: main, resources: {{requests: {{cpu: "1", memory: 1Gi}}}}}}]
---
"""


def user(name: str, of: str, **more: int | str) -> str:
    return pod(name, f"persistentVolumeClaim: {{claimName: {of}}}", **more)  # type: ignore[arg-type]


class Played:
    def __init__(self, folder: Path, cluster: list[str], pods: list[str], timing: str = "") -> None:
        (folder / "cluster.yaml").write_text(CLUSTER + "".join(cluster))
        (folder / "jobs.yaml").write_text("".join(pods))
        text = "cluster: {manifests: [cluster.yaml]}\nworkload: {manifests: [{file: jobs.yaml}]}\n"
        scenario = parse_scenario(text + (f"timing: {{{timing}}}\n" if timing else ""), folder / "s.yaml")
        self.simulation = Simulation(scenario, default_policy(default_registry().catalog), RunOptions())
        self.starts: dict[str, float] = {}
        self.nodes: dict[str, str] = {}

    def until(self, seconds: float) -> Played:
        loop, start = self.simulation.loop, self.simulation.scenario.start
        while (when := loop.next_time) is not None and when <= start + int(seconds * SECOND):
            loop.step()
            invariants.check(self.simulation.state)
            for one in self.simulation.cluster.pods.values():
                if one.started is not None:
                    name = one.pod.metadata.name
                    self.starts.setdefault(name, (one.started - start) / SECOND)
                    self.nodes[name] = one.node
        return self

    @property
    def bound(self) -> dict[str, str]:
        """Volume by claim."""
        things = self.simulation.cluster.objects.values()
        return {
            one.metadata.name: one.spec.volume_name
            for one in things
            if isinstance(one, PersistentVolumeClaim) and one.spec.volume_name
        }

    @property
    def volumes(self) -> set[str]:
        things = self.simulation.cluster.objects.values()
        return {one.metadata.name for one in things if isinstance(one, PersistentVolume)}


def test_a_volume_that_is_there_takes_no_time(tmp_path: Path) -> None:
    played = Played(tmp_path, [volume("pv", "n2"), claim("c", "local")], [user("p", "c")], "provisioning: 7s").until(60)
    assert (played.starts, played.nodes, played.bound) == ({"p": 0}, {"p": "n2"}, {"c": "pv"})


def test_a_provisioner_takes_its_time_and_holds_nobody_up(tmp_path: Path) -> None:
    pods = [user("p", "c"), pod("other", "emptyDir: {}", arrive=1)]
    played = Played(tmp_path, [claim("c", "disk")], pods, "provisioning: 7s").until(60)
    assert played.starts == {"p": 7, "other": 1}
    assert played.bound == {"c": "pvc-default-c"}


def test_a_provisioner_that_always_fails(tmp_path: Path) -> None:
    timing = "provisioning: 7s, provisioningFailures: 1"
    played = Played(tmp_path, [claim("c", "disk")], [user("p", "c")], timing).until(60)
    assert (played.starts, played.bound) == ({}, {})
    assert played.simulation.state.waiting is not None


def test_a_provisioner_that_sometimes_fails_succeeds_in_the_end(tmp_path: Path) -> None:
    claims, pods = [claim(f"c{i}", "disk") for i in range(6)], [user(f"p{i}", f"c{i}") for i in range(6)]
    played = Played(tmp_path, claims, pods, "provisioning: 2s, provisioningFailures: 0.5").until(300)
    assert len(played.starts) == 6
    assert max(played.starts.values()) > 2, "some failed first"


def test_a_gang_starts_when_the_volumes_of_all_are_bound(tmp_path: Path) -> None:
    group = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g, namespace: default}
spec: {minMember: 3}
---
"""
    pods = [group, user("g-0", "a", group="g"), user("g-1", "b", group="g"), pod("g-2", "emptyDir: {}", group="g")]
    cluster = [volume("pv", "n1"), claim("a", "local"), claim("b", "disk")]
    played = Played(tmp_path, cluster, pods, "provisioning: 7s").until(60)
    assert played.starts == {"g-0": 7, "g-1": 7, "g-2": 7}


def test_ephemeral_volumes_come_and_go_with_their_pod(tmp_path: Path) -> None:
    template = "{spec: {storageClassName: disk, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
    played = Played(tmp_path, [], [pod("p", f"ephemeral: {{volumeClaimTemplate: {template}}}")], "provisioning: 2s")
    played.until(5)
    assert (played.starts, played.bound) == ({"p": 2}, {"p-v": "pvc-default-p-v"})
    played.until(60)
    assert (played.bound, played.volumes) == ({}, set())


def test_the_next_pod_follows_the_volume_to_its_zone(tmp_path: Path) -> None:
    pods = [user("p", "c", run=10), user("next", "c", arrive=20)]
    played = Played(tmp_path, [claim("c", "disk")], pods, "provisioning: 3s").until(60)
    assert played.starts == {"p": 3, "next": 20}
    assert played.nodes["p"] == played.nodes["next"]
