"""A cluster without DRA: the node's annotation and capacity; and a dry run, which writes nothing."""

from __future__ import annotations

import asyncio
import json

import pytest

from agent.players import PlayedAgent, PlayedPlugin, eventually
from agent.small_api import SmallApi
from fairway.agent.service import NodeAgent
from fairway.agent.settings import AgentSettings
from fairway.app.logs import RunLog
from fairway.devices.model.device import ANNOTATION, from_annotation
from fairway.errors import InputError
from fairway.kube.server.connection import Connection

GPU, NIC = "example.com/gpu", "example.com/nic"

MAPPING = """
apiVersion: fairway.dev/v1alpha1
kind: DeviceMapping
resources:
- resource: example.com/gpu
  kind: gpu
  attributes: {model: a100}
  capacity: {memory: 40Gi}
  labels: {zone: zone}
  groups:
  - {name: pair, members: [g0, g1], attributes: {nvlink: true}}
"""


@pytest.fixture(name="old")
def an_older_server():
    api = SmallApi(with_devices=False)
    api.node("n1", zone="a")
    yield api
    api.close()


def plugin(players, agent, resource=GPU, ids=("g0", "g1")):
    return PlayedPlugin(players, agent.settings.plugin_folder, resource, list(ids)).start()


def test_the_annotation_is_what_the_scheduler_reads(players, host, old):
    (host / "map.yaml").write_text(MAPPING)
    with PlayedAgent(host, old.url, mapping=host / "map.yaml") as agent:
        one, two = plugin(players, agent), plugin(players, agent, NIC, ("g0",))
        node = old.nodes["n1"]
        eventually(lambda: node["status"]["capacity"] == {GPU: "2", NIC: "1"})
        eventually(lambda: len(json.loads(node["metadata"]["annotations"].get(ANNOTATION, "[]"))) == 4)
        devices = {device.name: device for device in from_annotation("n1", node["metadata"]["annotations"][ANNOTATION])}
        assert sorted(devices) == ["example.com.gpu.g0", "example.com.nic.g0", "g1", "pair"]
        assert devices["pair"].members == ("example.com.gpu.g0", "g1")
        assert devices["g1"].kind == "gpu"
        assert {name: value.text for name, value in devices["g1"].attributes.items()} == {
            "id": "g1",
            "memory": "40Gi",
            "model": "a100",
            "zone": "a",
        }
        one.change(g1="Unhealthy")
        eventually(lambda: node["status"]["capacity"] == {GPU: "1", NIC: "1"})

        def unhealthy():
            text = node["metadata"]["annotations"][ANNOTATION]
            return [device.name for device in from_annotation("n1", text) if not device.healthy]

        eventually(lambda: unhealthy() == ["g1", "pair"])
        one.stop()
        two.stop()
    assert not (host / "kr").exists(), "no driver without DRA"


def test_capacity_of_a_plugin_that_is_gone_is_taken_back(players, host, old):
    with PlayedAgent(host, old.url) as agent:
        one, two = plugin(players, agent), plugin(players, agent, NIC, ("n0",))
        node = old.nodes["n1"]
        eventually(lambda: node["metadata"]["annotations"].get("fairway.dev/device-resources") == f"{GPU},{NIC}")
    one.stop()
    two.stop()
    with PlayedAgent(host, old.url, plugin_grace=2.0) as agent:
        one = plugin(players, agent)
        eventually(lambda: agent.logged("plugin connected"))
        assert NIC in node["status"]["capacity"], "its plugin may still come"
        eventually(lambda: node["status"]["capacity"] == {GPU: "2"})
        one.stop()


def test_while_one_plugin_is_missed_after_a_restart_the_others_are_published(players, host, old):
    """Under the names that they had before: pods are recorded under them."""

    def names():
        return [one["name"] for one in json.loads(old.nodes["n1"]["metadata"]["annotations"].get(ANNOTATION, "[]"))]

    with PlayedAgent(host, old.url) as agent:
        one, two = plugin(players, agent), plugin(players, agent, NIC, ("g0",))
        eventually(lambda: sorted(names()) == ["example.com.gpu.g0", "example.com.nic.g0", "g1"])
    one.stop()
    two.stop()
    with PlayedAgent(host, old.url) as agent:
        two = plugin(players, agent, NIC, ("g0", "g9"))
        eventually(lambda: sorted(names()) == ["example.com.gpu.g0", "example.com.nic.g0", "g1", "g9"])
        assert old.nodes["n1"]["status"]["capacity"] == {GPU: "2", NIC: "2"}
        two.change(g9="")
        eventually(lambda: old.nodes["n1"]["status"]["capacity"] == {GPU: "2", NIC: "1"})
        one = plugin(players, agent)
        eventually(lambda: sorted(names()) == ["example.com.gpu.g0", "example.com.nic.g0", "g1"])
        one.stop()
        two.stop()


@pytest.mark.parametrize(
    "text", ["", "{", '[{"name": []}]', '[{"name": "x", "kind": "y", "attributes": 1}]', "[" * 5000]
)
def test_what_others_wrote_into_the_annotation_does_no_harm(players, host, old, text):
    old.nodes["n1"]["metadata"]["annotations"] = {ANNOTATION: text, "fairway.dev/device-resources": f"{GPU},{NIC}"}
    with PlayedAgent(host, old.url) as agent:
        one = plugin(players, agent, NIC, ("n0",))
        eventually(lambda: '"n0"' in old.nodes["n1"]["metadata"]["annotations"][ANNOTATION])
        one.stop()
    assert agent.status == 0


def test_a_dry_run_writes_nothing_anywhere(players, host, api):
    with PlayedAgent(host, api.url, dry_run=True) as agent:
        one = plugin(players, agent)
        lines = eventually(lambda: agent.logged("would publish"))
        one.stop()
        assert [entry["name"] for entry in json.loads(lines[0]["devices"])] == ["g0", "g1"]
    assert api.writes() == []
    assert sorted(path.name for path in host.iterdir()) == ["dp"]


def test_a_node_that_does_not_exist_is_an_error_of_the_operator(host, api):

    settings = AgentSettings(node="n9", plugin_folder=host / "dp")
    agent = NodeAgent(settings, Connection(api.url), RunLog(write=lambda line: None))
    with pytest.raises(InputError, match="node n9 does not exist"):
        asyncio.run(agent.run())
