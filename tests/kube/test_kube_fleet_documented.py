"""Every command of docs/fleet-hub.md, as it stands there, on a real hub."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.cluster import eventually
from kube.controlplane.plane import ControlPlane, data_folder
from kube.hub import install
from kube.ocm import V1, V1BETA1, V1BETA2
from kube.shell import Shell

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fleet-hub.md").read_text()
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    fairway ")]


@pytest.fixture(name="shell", scope="module")
def a_hub_with_the_example_fleet(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """On a server of its own: its set has all clusters that there are."""
    folder = tmp_path_factory.mktemp("hub")
    data = data_folder(folder)
    own = ControlPlane(data)
    own.start()
    try:
        install(own)
        own.call("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
        example = (ROOT / "examples" / "fleet" / "quickstart.yaml").read_text()
        for one in yaml.safe_load_all(example):
            _make(own, one)
        _make(own, {"apiVersion": V1, "kind": "ManagedCluster", "metadata": {"name": "cluster1"}, "status": {}})
        yield Shell(own, folder, "hub")
    finally:
        own.stop()
        shutil.rmtree(data, ignore_errors=True)


def _make(plane: ControlPlane, one: dict[str, Any]) -> None:
    places = {
        "ManagedClusterSet": f"/apis/{V1BETA2}/managedclustersets",
        "ManagedClusterSetBinding": f"/apis/{V1BETA2}/namespaces/shop/managedclustersetbindings",
        "ManagedCluster": f"/apis/{V1}/managedclusters",
        "Placement": f"/apis/{V1BETA1}/namespaces/shop/placements",
    }
    path = places[one["kind"]]
    spec = {"hubAcceptsClient": True, **one.get("spec", {})} if one["kind"] == "ManagedCluster" else one["spec"]
    plane.call("POST", path, {**one, "spec": spec})
    if one["kind"] == "ManagedCluster":
        status = {"conditions": [], **one["status"]}
        plane.call("PATCH", f"{path}/{one['metadata']['name']}/status", {"status": status}, kind="merge")


def command(beginning: str) -> str:
    (found,) = [one for one in COMMANDS if one.startswith(beginning)]
    return found


def test_all_commands_of_the_page_are_run_here() -> None:
    assert len(COMMANDS) == 6, COMMANDS


def test_a_dry_run_says_what_it_would_decide(shell: Shell) -> None:
    process = shell.start(command("fairway fleet"))
    try:
        eventually(lambda: "joins" in shell.log and "amsterdam" in shell.log)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, shell.log
    assert shell.plane.call("GET", f"/apis/{V1BETA1}/placementdecisions")["items"] == []


def test_what_is_installed_is_taken_by_the_server(shell: Shell) -> None:
    told = shell.run(command("fairway install fleet"))
    assert "deployment.apps/fairway-fleet created" in told
    assert re.search(r"clusterrole\S*/fairway-fleet configured", told), told  # its access is there already


def test_a_cluster_reports_and_needs_the_one_right(shell: Shell) -> None:
    (role,) = [one for one in yaml.safe_load_all(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]) if one]
    (shell.folder / "role.yaml").write_text(yaml.safe_dump(role))
    assert "created" in shell.run("kubectl --context hub apply -f role.yaml")
    process = shell.start(command("fairway run"))
    path = f"/apis/{V1}/managedclusters/cluster1"
    try:
        eventually(lambda: "fairway.dev/free" in (shell.plane.call("GET", path)["metadata"].get("annotations") or {}))
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, shell.log


def test_questions_to_the_hub(shell: Shell) -> None:
    placed = shell.run(command("fairway place"))
    assert "shop/storefront" in placed
    assert "amsterdam" in placed
    told = shell.run(command("fairway explain"))
    assert "What would make it select warsaw:" in told
    found = shell.run(command("fairway clusters"))
    assert re.search(r"lisbon .*maintenance:NoSelect", found), found
    for one in ("fairway place", "fairway explain", "fairway clusters"):
        assert json.loads(shell.run(f"{command(one)} -o json"))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("fairway place --context nowhere", "nowhere"),
        (
            "fairway explain placement shop/none --context hub",
            "placement shop/none does not exist; there are: shop/storefront",
        ),
        (
            "fairway explain placement shop/storefront --context hub --cluster warsw",
            "cluster warsw does not exist; there are: warsaw",
        ),
        ("fairway clusters --kubeconfig missing.kubeconfig", "missing.kubeconfig"),
    ],
)
def test_what_is_wrong_is_said_with_status_2(shell: Shell, asked: str, said: str) -> None:
    done = subprocess.run(
        asked.split(), cwd=shell.folder, env=shell.environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
