"""Devices on a real cluster, end to end: plugins in Go, agents, the scheduler under its access, stand-in kubelets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agent.players import eventually
from fairway.api.pods import Pod
from fairway.drive.claims import class_claim
from fairway.scheduler.plan import Binding, DeviceChoice
from kube.cluster import Cluster
from kube.controlplane.plane import ControlPlane
from kube.device_site import CLAIMS, NIC, OWN_CLASSES, Site, collect, device_site, devices, forbidden, pod, why
from kube.kubectl import Kubectl
from kube.live import Live

DOCUMENT = Path(__file__).parents[2] / "docs/devices-on-kubernetes.md"


def documented() -> list[dict[str, tuple[float, float]]]:
    """The tables of classes that the document shows, in order."""
    return [{row[0]: (float(row[1]), float(row[2])) for row in table} for table in shown_tables()]


def shown_tables() -> list[list[list[str]]]:
    blocks = DOCUMENT.read_text().split("$ kubectl get resclass\n")[1:]
    tables = [block.partition("```")[0].partition("$")[0].splitlines()[1:] for block in blocks]
    return [[cells(line) for line in table] for table in tables]


def cells(line: str) -> list[str]:
    """Of a table that kubectl prints, or the document shows; the age is left out."""
    return re.split(r"\s{2,}", line.strip())[:-1]


@pytest.fixture(name="site")
def a_site(installed: ControlPlane, cluster: Cluster) -> Iterator[Site]:
    with device_site(installed, cluster) as site:
        yield site


def test_devices_by_class_reach_the_containers_that_were_meant(site: Site) -> None:
    with Live(site.cluster, user="scheduler") as live:
        free = {"fast-gpu": (4, 0), "any-gpu": (8, 0), "gpu-pair": (2, 0), "nic": (4, 0)}
        first, second, third = documented()
        assert first == free
        eventually(lambda: site.status() == free, "all classes count their devices")
        assert site.shown() == site.listed() == first
        printed = Kubectl(site.plane, site.cluster.namespace)("get", "resclass", *sorted(OWN_CLASSES))
        assert [cells(line) for line in printed.splitlines()[1:]] == shown_tables()[0], "selectors too"

        pod(site, "one", {"fast-gpu": 1, "nic": 1}, {"any-gpu": 2})
        eventually(lambda: site.cluster.places()["one"])
        given = devices(site)["one"]
        fast, any_gpu = given[0], given[1]
        assert len(fast) == 2, "a GPU and a NIC for the first container"
        assert {one.partition("-")[0] for one in fast} == {"GPU", "nic"}
        assert next(one for one in fast if one.startswith("GPU")) in ("GPU-0", "GPU-1")
        assert len(any_gpu) == 2
        assert not set(fast) & set(any_gpu)
        used = site.status
        eventually(lambda: used()["nic"] == (4, 1) and used()["any-gpu"] == (8, 3), "the pod is counted")
        assert used() == site.shown() == site.listed() == second

        # the pair of the other node is whole; two are not to be had any more
        pod(site, "pair", {"gpu-pair": 1})
        eventually(lambda: site.cluster.places()["pair"])
        assert devices(site)["pair"] == [["GPU-0", "GPU-1"]]
        eventually(lambda: site.status() == third, "the pair is counted")
        assert site.shown() == site.listed() == third
        pod(site, "waits", {"gpu-pair": 1})
        pod(site, "unknown", {"no-such-class": 1})
        eventually(lambda: why(site, "waits") and why(site, "unknown"))
        assert "no-such-class" in why(site, "unknown")
        assert why(site, "waits") in DOCUMENT.read_text()

        eventually(lambda: site.status() == site.shown(), "kubectl and fairway agree")
        site.cluster.delete(f"{site.cluster.pods}/one", grace=None)
        site.cluster.delete(f"{site.cluster.pods}/pair", grace=None)
        eventually(lambda: site.sync() is not None and "pair" not in site.cluster.places())
        collect(site)
        eventually(lambda: site.cluster.places()["waits"], "the next pair is given out")
        assert devices(site)["waits"] == [["GPU-0", "GPU-1"]]
        for name in ("waits", "unknown"):
            site.cluster.delete(f"{site.cluster.pods}/{name}", grace=None)
        eventually(lambda: site.sync() == {} and not site.cluster.places())
        collect(site)
        try:
            eventually(lambda: site.status() == free, "everything is free again")
        except AssertionError:
            left = site.plane.call("GET", CLAIMS.format(site.cluster.namespace))["items"]
            names = [one["metadata"]["name"] for one in left]
            kept = [key for key, _ in live.store.of_kind("ResourceClaim")]
            raise AssertionError(f"{site.status()}, by fairway {site.shown()}, claims {names}, known {kept}") from None
        assert site.shown() == free
        assert forbidden(live) == []


def test_a_claim_of_an_attempt_that_ended_in_a_crash_is_replaced(site: Site) -> None:
    """It was allocated for the pod with devices of another node, and the pod was never bound."""
    pod(site, "p", {"nic": 1}, nodeSelector={"kubernetes.io/hostname": "n1"})
    uid = site.cluster.get(f"{site.cluster.pods}/p")["metadata"]["uid"]
    node = f"{site.cluster.namespace}-n2"
    choice = DeviceChoice("nic", "nic-1", 1, driver="devices.fairway.dev", pool=f"{node}/{NIC}")
    waiting = msgspec.convert(site.cluster.get(f"{site.cluster.pods}/p"), Pod)
    made = class_claim(waiting, Binding("p", node, (choice,)), 0)
    assert made is not None
    claim = msgspec.to_builtins(made[0])
    path = CLAIMS.format(site.cluster.namespace)
    there = site.cluster.make(path, claim)
    site.plane.call("PUT", f"{path}/{there['metadata']['name']}/status", {**there, "status": claim["status"]})
    labels = {"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}}
    site.plane.call("PATCH", f"/api/v1/nodes/{site.cluster.namespace}-n1", labels, kind="merge")
    with Live(site.cluster, user="scheduler") as live:
        eventually(lambda: site.cluster.places() == {"p": "n1"}, "the pod is bound where it belongs")
        assert devices(site) == {"p": [["nic-0"]]}
        assert len(site.plane.call("GET", path)["items"]) == 1
        eventually(lambda: site.status()["nic"] == (4, 1), "it is counted once")
        assert forbidden(live) == []
    assert site.cluster.get(f"{site.cluster.pods}/p")["metadata"]["uid"] == uid
    site.cluster.delete(f"{site.cluster.pods}/p")
    site.sync()
