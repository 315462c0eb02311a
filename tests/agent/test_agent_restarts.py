"""What outlives a process: checkpoints, CDI specs, what is published; and sockets or servers that go away."""

from __future__ import annotations

import asyncio
import json
import os
import stat

from agent.players import PlayedAgent, PlayedKubelet, PlayedPlugin, eventually
from fairway.agent.sockets import UnixServer

GPU = "example.com/gpu"
POOL = "n1/example.com/gpu"


def plugin(players, agent, count=2):
    return PlayedPlugin(players, agent.settings.plugin_folder, GPU, [f"g{number}" for number in range(count)])


def kubelet(players, agent):
    return PlayedKubelet(players, agent.settings.kubelet_registry).register()


def test_a_prepared_claim_survives_a_restart(players, host, api):
    claim = api.claim("c", ("r", POOL, "g0"))
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        first = kubelet(players, agent).prepare(claim)
        specs = agent.specs()
    one.stop()
    assert api.devices(POOL), "what is published stays"
    for path in (host / "cdi").iterdir():
        path.unlink()
    with PlayedAgent(host, api.url) as agent:
        assert agent.specs() == specs, "a spec that is missing is written again"
        node = kubelet(players, agent)
        assert node.prepare(claim) == first, "without the plugin"
        other = api.claim("d", ("r", POOL, "g0"))
        two = plugin(players, agent).start()
        eventually(lambda: agent.agent.pools)
        assert "is in use by claim ns/c" in node.prepare(other)["uid-d"]
        assert two.calls == []
        assert node.unprepare(claim) == {"uid-c": ""}
        assert isinstance(node.prepare(other)["uid-d"], list)
        two.stop()


def test_without_the_api_server_a_prepared_claim_is_answered_from_what_is_known(players, host, api):
    claim = api.claim("c", ("r", POOL, "g0"))
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        node = kubelet(players, agent)
        first = node.prepare(claim)
        api.silent = True
        assert node.prepare(claim) == first
        assert "cannot be read: no answer" in node.prepare("ns d uid-d")["uid-d"]
        assert node.unprepare(claim) == {"uid-c": ""}
        api.silent = False
        one.stop()


def test_an_allocation_that_changed_is_prepared_again(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        node = kubelet(players, agent)
        node.prepare(api.claim("c", ("r", POOL, "g0")))
        (devices,) = node.prepare(api.claim("c", ("r", POOL, "g1"))).values()
        assert devices[0][1] == f"{POOL}/g1"
        assert one.calls == ["allocate g0", "allocate g1"]
        assert isinstance(node.prepare(api.claim("d", ("r", POOL, "g0")))["uid-d"], list)
        one.stop()


def test_a_claim_made_again_under_its_name_gets_nothing_of_the_old_one(players, host, api):
    """The kubelet still holds the old claim. The new one has the same name, another uid, and maybe another owner."""
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        node = kubelet(players, agent)
        old = api.claim("c", ("r", POOL, "g0"))
        prepared = node.prepare(old)
        api.claims["c"]["metadata"]["uid"] = "uid-new"
        assert node.prepare(old) == {"uid-c": "claim ns/c has the uid uid-new, expected uid-c"}
        # The new one asks for the same device, which the old one has not given back.
        in_use = f"claim ns/c: device g0 of {GPU} is in use by claim ns/c"
        assert node.prepare("ns c uid-new") == {"uid-new": in_use}
        assert node.unprepare("ns c uid-new") == {"uid-new": ""}
        assert node.prepare("ns c uid-new") == {"uid-new": in_use}  # that gave nothing back
        assert node.unprepare(old) == {"uid-c": ""}
        again = node.prepare("ns c uid-new")["uid-new"]
        assert again[0][1] == prepared["uid-c"][0][1]
        assert again[0][2] == ("devices.fairway.dev/claim=uid-new-0",)
        one.stop()


def test_a_checkpoint_of_another_claim_s_uid_is_put_aside(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        claim = api.claim("c", ("r", POOL, "g0"))
        kubelet(players, agent).prepare(claim)
        one.stop()
    path = host / "state/claims/uid-c.json"
    path.rename(path.with_name("uid-other.json"))
    with PlayedAgent(host, api.url) as agent:
        assert agent.logged("checkpoint cannot be read, put aside")
        assert agent.specs() == {}


def test_a_slice_that_was_made_again_is_not_deleted(players, host, api):
    """By its name alone, what someone made in its place would go."""
    with PlayedAgent(host, api.url, plugin_grace=1.0) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        (name,) = api.slices
        uid = api.slices[name]["metadata"]["uid"]
        one.stop()
        eventually(lambda: not api.slices)
    assert api.preconditions == [{"uid": uid}]


def test_a_checkpoint_that_cannot_be_read_concerns_its_claim_only(players, host, api):
    claims = [api.claim(name, ("r", POOL, f"g{number}")) for number, name in enumerate("ab")]
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        kubelet(players, agent).prepare(*claims)
    one.stop()
    (host / "state/claims/uid-a.json").write_text("{")
    with PlayedAgent(host, api.url) as agent:
        assert [line["path"] for line in agent.logged("checkpoint cannot be read, put aside")] == [
            str(host / "state/claims/uid-a.json")
        ]
        assert list(agent.specs()) == ["devices.fairway.dev-claim_uid-b.json"]
        one = plugin(players, agent).start()
        eventually(lambda: agent.agent.pools)
        assert isinstance(kubelet(players, agent).prepare(claims[0])["uid-a"], list)
        one.stop()


def test_after_a_start_of_the_host_the_plugin_is_asked_again(players, host, api):
    claim = api.claim("c", ("r", POOL, "g0"))
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        kubelet(players, agent).prepare(claim)
    one.stop()
    path = host / "state/claims/uid-c.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "an earlier one"}))
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: agent.agent.pools)
        node = kubelet(players, agent)
        other = api.claim("d", ("r", POOL, "g0"))
        assert isinstance(node.prepare(other)["uid-d"], list), "what was prepared before the start is in use no more"
        assert node.unprepare(other) == {"uid-d": ""}
        assert isinstance(node.prepare(claim)["uid-c"], list)
        assert one.calls == ["allocate g0", "allocate g0"]
        one.stop()


def test_what_a_kubelet_deletes_when_it_starts_is_published_again(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        api.slices.clear()
        kubelet(players, agent)
        eventually(lambda: len(api.devices(POOL)) == 2)
        one.stop()


def test_a_restart_changes_nothing_of_what_is_published(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent, 100).start()
        eventually(lambda: len(api.devices(POOL)) == 100)
    one.stop()
    before = len(api.writes())
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent, 100).start()
        eventually(lambda: agent.logged("plugin connected"))
        kubelet(players, agent)
        eventually(lambda: agent.agent._loop.published)
    one.stop()
    assert len(api.writes()) == before


def test_devices_of_a_plugin_that_stays_away_are_withdrawn(players, host, api):
    with PlayedAgent(host, api.url, plugin_grace=1.0) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        one.stop()
        eventually(lambda: not api.slices)
        assert agent.logged("plugin is gone, its devices are withdrawn")


def test_what_an_earlier_process_published_is_withdrawn_if_its_plugin_does_not_return(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
    one.stop()
    with PlayedAgent(host, api.url, plugin_grace=0.5):
        assert api.devices(POOL), "it may still come"
        eventually(lambda: not api.slices)


def test_sockets_that_are_removed_are_served_again(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        sockets = [
            host / "dp/kubelet.sock",
            host / "kp/devices.fairway.dev/dra.sock",
            host / "kr/devices.fairway.dev-reg.sock",
        ]
        for path in sockets:
            path.unlink()
        eventually(lambda: all(path.is_socket() for path in sockets))
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        node = kubelet(players, agent)
        assert isinstance(node.prepare(api.claim("c", ("r", POOL, "g0")))["uid-c"], list)
        one.stop()


def test_sockets_made_at_the_same_time_leave_the_mask_of_new_files_as_it_was(tmp_path):
    servers = [UnixServer(tmp_path / f"{number}.sock", ()) for number in range(3)]

    async def story():
        await asyncio.gather(*(server.start() for server in servers))
        modes = {stat.S_IMODE(server.path.stat().st_mode) for server in servers}
        await asyncio.gather(*(server.close() for server in servers))
        return modes

    before = os.umask(0o022)
    try:
        assert asyncio.run(story()) == {0o600}
    finally:
        after = os.umask(before)
    assert after == 0o022


def test_a_server_that_fails_is_asked_again(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        api.failing = 3
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        assert agent.logged("publishing failed, it is tried again")
        one.stop()
    assert agent.status == 0


def test_a_slice_that_someone_else_changed_is_put_right(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        (slice_,) = api.slices.values()
        slice_["metadata"]["resourceVersion"] = "other"
        slice_["spec"]["devices"] = []
        one.change(g0="Unhealthy")
        eventually(lambda: "taints" in api.devices(POOL).get("g0", {}))
        one.stop()


def test_a_thousand_devices(players, host, api):
    with PlayedAgent(host, api.url) as agent:
        one = plugin(players, agent, 1000).start()
        eventually(lambda: len(api.devices(POOL)) == 1000)
        assert len(api.slices) == 16
        node = kubelet(players, agent)
        claims = [api.claim(f"c{number}", ("r", POOL, f"g{number}")) for number in range(0, 1000, 10)]
        answers = node.prepare(*claims)
        assert not [answer for answer in answers.values() if isinstance(answer, str)]
        assert [answers[f"uid-c{number}"][0][1] for number in range(0, 1000, 10)] == [
            f"{POOL}/g{number}" for number in range(0, 1000, 10)
        ]
        assert set(node.unprepare(*claims).values()) == {""}
        one.stop()
