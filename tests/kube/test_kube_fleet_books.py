"""Two real API servers, a hub and a member cluster: placer and scheduler are killed, and each is cut off from the hub,
while placements and workloads come and go. After each round the books balance: what is reserved is what decisions
record, what is consumed is what is used, and what is free is what no pod uses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from fairway.api.fleet import ManagedCluster, Placement, PlacementDecision
from fairway.fleet import FleetState
from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane, data_folder
from kube.fleet_process import FleetProcess
from kube.hub import Hub
from kube.process import RunProcess
from kube.proxy import FaultProxy
from support.effort import examples

NODE_CPU = 40
ROUNDS = examples(2, 12)


@pytest.fixture(name="member")
def a_member_cluster(plane: ControlPlane, tmp_path: Path) -> Iterator[Cluster]:
    """On an API server of its own. `plane` is the hub's."""
    folder = data_folder(tmp_path)
    own = ControlPlane(folder)
    own.start()
    yield Cluster(own, "member")
    own.stop()
    shutil.rmtree(folder, ignore_errors=True)


class TwoSides:
    """A hub with its placer, a member with its scheduler, and a random hand."""

    def __init__(self, hub: Hub, member: Cluster, folder: Path, random: Random, cables: Sequence[FaultProxy]) -> None:
        """`cables` lead to the hub, from the placer and from the scheduler."""
        self.hub = hub
        self.member = member
        self.random = random
        self.cables = cables
        self.placer = FleetProcess(hub, cables[0].kubeconfig(folder))
        self.scheduler = RunProcess(
            folder,
            "member",
            kubeconfig=str(member.plane.kubeconfig()),
            schedulerNames=[member.scheduler],
            leaderElection={"enabled": False},
            reportTo=str(cables[1].kubeconfig(folder)),
            reportAs=hub.full("m"),
        )
        self.placements: dict[str, int] = {}
        self.pods: dict[str, tuple[str, int]] = {}
        self.number = 0

    def start(self) -> None:
        self.placer.start()
        self.scheduler.start()

    def kill(self) -> None:
        self.placer.kill()
        self.scheduler.kill()

    def act(self) -> None:
        self.number += 1
        name = f"x{self.number}"
        match self.random.choice(("place", "end", "pod", "pod", "finish", "kill placer", "kill scheduler", "cable")):
            case "place":
                self.place(name, self.random.randint(1, 15))
            case "end" if self.placements:
                gone = self.random.choice(sorted(self.placements))
                del self.placements[gone]
                self.hub.delete(self.hub.placement_path(gone), grace=None)
                for one in self.hub.slices(gone):  # the garbage collector's part
                    self.hub.delete(f"{self.hub.decisions_path}/{one['metadata']['name']}", grace=None)
            case "pod":
                owner = self.random.choice([*sorted(self.placements), "none"])
                self.pod(name, owner, self.random.randint(1, 6))
            case "finish" if self.pods:
                done = self.random.choice(sorted(self.pods))
                del self.pods[done]
                self.member.delete(f"{self.member.pods}/{done}")
            case "kill placer":
                self.placer.kill()
                self.placer.start()
            case "kill scheduler":
                self.scheduler.kill()
                self.scheduler.start()
            case "cable":  # pulled, or put back
                cable = self.random.choice(self.cables)
                cable.is_cut = not cable.is_cut

    def place(self, name: str, cpu: int) -> None:
        self.placements[name] = cpu
        self.hub.placement(name, annotations={"fairway.dev/requirements": json.dumps({"cpu": str(cpu)})})

    def pod(self, name: str, owner: str, cpu: int) -> None:
        labels = {"fairway.dev/placement-namespace": self.hub.namespace, "fairway.dev/placement-name": owner}
        self.pods[name] = owner, cpu
        self.member.pod(name, cpu=str(cpu), metadata={"labels": labels})

    def heal(self) -> None:
        for cable in self.cables:
            cable.is_cut = False

    # -- the books -------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        notes = self.hub.get(self.hub.path("m"))["metadata"].get("annotations", {})
        return {name: json.loads(notes.get(f"fairway.dev/{name}", "null")) for name in ("free", "placement-usage")}

    def used(self) -> dict[str, int]:
        """By placement, as the member's own server has it."""
        places = self.member.places()
        found: dict[str, int] = {}
        for name, (owner, cpu) in self.pods.items():
            if places.get(name):
                found[owner] = found.get(owner, 0) + cpu
        return found

    def balances(self) -> bool:
        """Whether all that is known at the three places is the same."""
        report, used = self.report(), self.used()
        if report["free"] is None or int(report["free"]["cpu"]) != NODE_CPU - sum(used.values()):
            return False
        told = {key.rpartition("/")[2]: int(one["cpu"]) for key, one in (report["placement-usage"] or {}).items()}
        return told == used and self.decided()

    def await_balance(self) -> None:
        try:
            eventually(self.balances, "the books balance")
        except AssertionError as error:
            conditions = {name: self.hub.condition(name) for name in self.placements}
            chosen = {name: self.hub.chosen(name) for name in self.placements}
            facts = f"{self.report()}, used {self.used()}, requested {self.placements}, {chosen}, {conditions}"
            raise AssertionError(f"{error}; {facts}; the placer {self.placer.last_words()}") from None

    def decided(self) -> bool:
        """Whether the ledger made anew from the hub's objects is what the decisions record, with nothing negative."""
        kinds = (
            ("managedclusters", ManagedCluster),
            ("placements", Placement),
            ("placementdecisions", PlacementDecision),
        )
        things: list[Any] = []
        for plural, kind in kinds:
            version = "v1" if kind is ManagedCluster else "v1beta1"
            items = self.hub.get(f"/apis/cluster.open-cluster-management.io/{version}/{plural}")["items"]
            things += [msgspec.convert(one, kind, strict=False) for one in items]
        state = FleetState(things)
        state.check()
        held = {}
        for slot in state.ledger.slots():
            for entry in state.ledger.entries(slot):
                assert entry.reserved == entry.consumed + entry.remaining
                if entry.placement.startswith(f"{self.hub.namespace}/"):
                    held[entry.placement.rpartition("/")[2]] = entry.reserved.format()["cpu"]
        chosen = {name: str(need) for name, need in self.placements.items() if self.hub.chosen(name)}
        waits = [name for name in self.placements if name not in chosen]
        told = all((self.hub.condition(name) or ("",))[0] == "False" for name in waits)
        return held == chosen and told


@pytest.mark.parametrize("seed", range(examples(1, 4)))
def test_the_books_balance_on_two_servers_after_kills(hub: Hub, member: Cluster, tmp_path: Path, seed: int) -> None:
    hub.managed("m")
    member.node("n", cpu=NODE_CPU)
    with FaultProxy(hub.plane, user="fleet") as placers, FaultProxy(hub.plane, user="admin") as members:
        sides = TwoSides(hub, member, tmp_path, Random(seed), (placers, members))
        try:
            sides.start()
            for _ in range(ROUNDS):
                for _ in range(8):
                    sides.act()
                sides.heal()
                sides.await_balance()
            assert sides.scheduler.problems() == []
        finally:
            sides.kill()
