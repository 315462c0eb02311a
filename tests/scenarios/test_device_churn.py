"""Devices come and go, and so do pods that ask for them: what is gone is forgotten, and no order matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fairway.devices.select.requests import ByClaim
from fairway.devices.track.ledger import check_ledger, device_ledger
from fairway.state.cluster import ClusterState, Deleted, Upserted
from fairway.state.device_requests import ClaimRequest, DeviceRequests
from support.claims import allocated, claim, claiming, device_class, exactly, gpu
from support.cli import write
from support.devices import DRIVER, asking, device_node, kind_class, resource_slice
from support.engine import state_of

BASE = [kind_class("any", "gpu"), device_class(), device_node("n1"), resource_slice("s1", "n1", gpu("a"), gpu("b"))]


def sizes(state: ClusterState) -> dict[str, int]:
    """How many entries every table of the book has, through everything that it is made of."""
    ledger = device_ledger(state)
    found: dict[str, int] = {}
    parts: list[Any] = [
        ledger,
        ledger.columns,
        ledger._occupancy,
        ledger._occupancy.claimed,
        ledger.network,
        ledger._locator,
    ]
    for part in [*parts, ledger._locator._pools, *ledger.nodes.values()]:
        names = list(vars(part)) if hasattr(part, "__dict__") else list(type(part).__slots__)
        for name in names:
            value = getattr(part, name)
            if isinstance(value, dict | set | list):
                key = f"{type(part).__name__}.{name}"
                found[key] = found.get(key, 0) + len(value)
    return found


def test_after_churn_the_book_is_as_small_as_a_new_one() -> None:
    state = state_of(*BASE)
    for i in range(1200):
        ledger = device_ledger(state)
        ledger.resolve(DeviceRequests(claims=(ClaimRequest("c", f"default/c{i}", ""),)))
        ledger.nodes[0].candidates(ByClaim(f"class-{i}"))
        ledger.layout(ledger.nodes[0])
        if i % 3 == 0:
            things = [resource_slice("x", "n1", *(gpu(f"d{j}", numa=str(i)) for j in range(1 + i % 7)), pool=f"x{i}")]
            things.append(claim("held", exactly(), status=allocated("h", f"x{i}", "d0")))
            for thing in things:
                state.apply(Upserted(thing))
            device_ledger(state)
            for thing in things:
                state.apply(Deleted(thing))
    check_ledger(state)
    fresh = state_of(*BASE)
    kept, new = sizes(state), sizes(fresh)
    assert {name: (kept[name], new.get(name, 0)) for name in kept if kept[name] > new.get(name, 0) + 1100} == {}
    assert kept["ClaimedDevices._by_device"] == kept["Locator._on_node"] - new["Locator._on_node"] == 0


MANY = [
    {**gpu(f"d{i}", roots={"strings": [f"r{i % 3}", f"r{(i + 1) % 3}"]}), "allowMultipleAllocations": i % 4 == 0}
    for i in range(9)
]


def test_the_same_devices_are_chosen_whatever_the_hash_seed(tmp_path: Path) -> None:
    roots = f"{DRIVER}/roots"
    world: list[Any] = [kind_class("any", "gpu"), device_class()]
    for name in ("n1", "n2"):
        world += [device_node(name), resource_slice(f"s-{name}", name, *MANY)]
    for i, rule in enumerate(("matchAttribute", "distinctAttribute", "matchAttribute")):
        asked = claim(f"c{i}", exactly(count=2), exactly("s"), constraints=[{rule: roots}])
        world += [asked, claiming(f"p{i}", f"c{i}", created=i)]
    world += [asking(f"q{i}", classes={"any": 2}, created=9) for i in range(3)]
    path = write(world, tmp_path)
    command = [sys.executable, "-m", "fairway.cli.main", "plan", "-f", str(path), "--all-pods", "-o", "json"]
    command += ["--now", "2026-01-02T00:00:00Z"]
    plans = []
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        plans.append(json.loads(done.stdout))
    assert plans[0] == plans[1] == plans[2]
    assert any(binding["devices"] for binding in plans[0]["bindings"])
