"""Programs on the node that lie, and files that are not whole: the others go on, and what is wrong is said."""

from __future__ import annotations

import asyncio
import json

import pytest

from agent.players import PlayedAgent, PlayedKubelet, PlayedPlugin, eventually
from fairway.agent import inventory, plugins
from fairway.agent.protocol import device_plugin_pb2 as messages
from fairway.agent.registry import PluginRegistry
from fairway.app.logs import RunLog

GPU, NIC = "example.com/gpu", "example.com/nic"
GPUS, NICS = f"n1/{GPU}", f"n1/{NIC}"


class LyingPlugin(PlayedPlugin):
    """Lists exactly what it is told to."""

    listed: tuple[messages.Device, ...] = ()

    async def _watch(self, request, context):
        yield messages.ListAndWatchResponse(devices=self.listed)
        await asyncio.Event().wait()


def started(players, agent, devices):
    plugin = LyingPlugin(players, agent.settings.plugin_folder, GPU, [])
    plugin.listed = tuple(devices)
    return plugin.start()


def honest(players, agent):
    return PlayedPlugin(players, agent.settings.plugin_folder, NIC, ["nic-0"]).start()


def device(one, health="Healthy"):
    return messages.Device(ID=one, health=health)


def test_ids_that_cannot_be_used_are_left_out_and_the_others_count(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        lies = [
            device(""),
            device("x" * 254),
            device("g0"),
            device("g0", "Unhealthy"),
            device("g1", "\0odd"),
            device("ü/../g"),
        ]
        one, two = started(players, agent, lies), honest(players, agent)
        eventually(lambda: len(api.devices(GPUS)) == 3 and len(api.devices(NICS)) == 1)
        assert agent.logged("devices left out")[0]["why"].startswith("3 of 6 cannot be used")
        healthy = [name for name, found in api.devices(GPUS).items() if "taints" not in found]
        assert len(healthy) == 1, "the last word on a device counts, and an unknown health is none"
        for name in api.devices(GPUS):
            assert name.isascii()
            assert "/" not in name
        one.stop()
        two.stop()


def test_a_list_without_end_is_cut_and_harms_no_other_plugin(players, host, api, monkeypatch):
    monkeypatch.setattr(plugins, "MAX_DEVICES", 50)
    with PlayedAgent(host, api.url) as agent:
        one, two = started(players, agent, [device(f"g{number}") for number in range(60)]), honest(players, agent)
        eventually(lambda: len(api.devices(GPUS)) == 50 and len(api.devices(NICS)) == 1)
        one.stop()
        two.stop()


def test_a_message_that_is_too_large_is_refused_and_harms_no_other_plugin(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        one, two = started(players, agent, [device("x" * (17 << 20))]), honest(players, agent)
        eventually(lambda: len(api.devices(NICS)) == 1)
        claim = api.claim("c", ("r", NICS, "nic-0"))
        node = PlayedKubelet(players, agent.settings.kubelet_registry).register()
        assert isinstance(node.prepare(claim)["uid-c"], list)
        assert api.devices(GPUS) == {}
        one.stop()
        two.stop()


@pytest.mark.parametrize("rest", [b"", b'{"cdiVersion": "0.6.0", "dev', b"\0" * 4096])
def test_a_spec_that_is_not_whole_is_written_again(players, host, api, rest):
    claim = api.claim("c", ("r", NICS, "nic-0"))
    with PlayedAgent(host, api.url) as agent:
        plugin = honest(players, agent)
        eventually(lambda: api.devices(NICS))
        node = PlayedKubelet(players, agent.settings.kubelet_registry).register()
        first = node.prepare(claim)
        (path,) = (host / "cdi").iterdir()
        whole = path.read_bytes()
        path.write_bytes(rest)
        assert node.prepare(claim) == first
        assert path.read_bytes() == whole
        path.write_bytes(rest)
        plugin.stop()
    (host / "cdi" / f".{path.name}.partial").write_bytes(b"{")
    with PlayedAgent(host, api.url):
        eventually(lambda: path.read_bytes() == whole)
        assert [one.name for one in (host / "cdi").iterdir()] == [path.name], "what a crash left behind is removed"
        assert json.loads(whole)["devices"]


def test_of_many_registrations_at_once_the_last_counts_and_no_other_is_followed(tmp_path, monkeypatch):
    """What is followed takes a while to end, and others register meanwhile."""
    followed = []

    async def follow(self):
        followed.append(self.path.name)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            followed.remove(self.path.name)

    async def story():
        log = RunLog("json", "error", write=lambda line: None)
        registry = PluginRegistry(tmp_path, lambda: None, log, grace=1.0)
        await registry._replace(GPU, tmp_path / "0", None)
        await asyncio.sleep(0)
        await asyncio.gather(*(registry._replace(GPU, tmp_path / str(number), None) for number in range(1, 5)))
        await asyncio.sleep(0.05)
        assert followed == ["4"]
        await registry.close()
        assert followed == []

    monkeypatch.setattr(plugins.PluginSession, "run", follow)
    asyncio.run(story())


def test_a_claim_that_has_a_device_twice_is_refused(players, host, api, tmp_path):
    mapping = tmp_path / "map.yaml"
    groups = "groups: [{name: both, members: [nic-0, nic-1]}]"
    mapping.write_text(
        f"apiVersion: fairway.dev/v1alpha1\nkind: DeviceMapping\nresources: [{{resource: {NIC}, {groups}}}]\n"
    )
    with PlayedAgent(host, api.url, mapping=mapping) as agent:
        plugin = PlayedPlugin(players, agent.settings.plugin_folder, NIC, ["nic-0", "nic-1"]).start()
        eventually(lambda: len(api.devices(NICS)) == 3)
        node = PlayedKubelet(players, agent.settings.kubelet_registry).register()
        for first, second in (("nic-0", "nic-0"), ("both", "nic-1")):
            claim = api.claim("c", ("a", NICS, first), ("b", NICS, second))
            assert f"device {second} of {NIC} is allocated to it twice" in node.prepare(claim)["uid-c"]
        assert plugin.calls == []
        assert isinstance(node.prepare(api.claim("d", ("r", NICS, "both")))["uid-d"], list)
        plugin.stop()


def test_what_the_server_does_not_take_of_one_plugin_keeps_no_other_from_being_published(
    players, host, api, monkeypatch
):
    """The pools that come before and after it by name; what they have is kept up to date too."""
    monkeypatch.setattr(inventory, "fits_text", lambda text: True)
    with PlayedAgent(host, api.url) as agent:
        one = started(players, agent, [device("ü" * 40)])
        eventually(lambda: api.problems)
        two = honest(players, agent)
        first = PlayedPlugin(players, agent.settings.plugin_folder, "example.com/a", ["a-0"]).start()
        eventually(lambda: len(api.devices(NICS)) == 1 and len(api.devices("n1/example.com/a")) == 1)
        two.change(**{"nic-0": "Unhealthy"})
        eventually(lambda: "taints" in api.devices(NICS)["nic-0"])
        assert api.devices(GPUS) == {}
        assert agent.logged("publishing failed, it is tried again")
        for plugin in (one, two, first):
            plugin.stop()


def test_an_id_is_an_attribute_only_where_its_bytes_fit(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        one = started(players, agent, [device("ü" * 32), device("ü" * 33), device("x" * 64), device("y" * 65)])
        eventually(lambda: len(api.devices(GPUS)) == 4)
        ids = [found["attributes"].get("id", {}).get("string") for found in api.devices(GPUS).values()]
        assert sorted(filter(None, ids)) == ["x" * 64, "ü" * 32]
        assert api.problems == []
        one.stop()


def test_a_group_whose_members_do_not_fit_is_left_out_and_said(players, host, api, tmp_path):
    ids = [f"{'x' * 60}-{number:02}" for number in range(32)]
    mapping = tmp_path / "map.yaml"
    groups = f"groups: [{{name: many, members: [{', '.join(ids)}]}}, {{name: few, members: [{ids[0]}, {ids[1]}]}}]"
    mapping.write_text(
        f"apiVersion: fairway.dev/v1alpha1\nkind: DeviceMapping\nresources: [{{resource: {GPU}, {groups}}}]\n"
    )
    with PlayedAgent(host, api.url, mapping=mapping) as agent:
        one = started(players, agent, [device(one) for one in ids])
        eventually(lambda: len(api.devices(GPUS)) == 33)
        assert "few" in api.devices(GPUS)
        assert [line["groups"] for line in agent.logged("groups left out")] == ["many"]
        assert api.problems == []
        one.stop()
