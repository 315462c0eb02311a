"""The agent with programs of another stack at its sockets: a plugin and a kubelet in Go on Kubernetes' own packages."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from agent.peers import GoKubelet, GoPlugin, Peer
from agent.players import PlayedAgent, eventually

POOL = "n1/example.com/gpu"


def named(api, one):
    """The published name of a device, by its id."""
    return next(name for name, device in api.devices(POOL).items() if device["attributes"]["id"]["string"] == one)


def healthy(api, pool=POOL):
    return [device["attributes"]["id"]["string"] for device in api.devices(pool).values() if "taints" not in device]


def test_a_plugin_and_a_kubelet_in_go(peers, host, api):
    with PlayedAgent(host, api.url) as agent, GoPlugin(host / "dp") as plugin, GoKubelet(host / "kr") as kubelet:
        assert kubelet.about == ["devices.fairway.dev", str(host / "kp/devices.fairway.dev/dra.sock")]
        eventually(lambda: len(api.devices(POOL)) == 8)
        assert api.devices(POOL)[named(api, "GPU-3")]["attributes"]["numaNode"] == {"int": 1}
        claim = api.claim("c", ("r", POOL, named(api, "GPU-3")), ("r", POOL, named(api, "GPU-5")))
        answer = kubelet.prepare(claim)
        assert answer == {
            "uid-c": [
                (
                    "r",
                    f"{POOL}/{named(api, 'GPU-3')}",
                    ("devices.fairway.dev/claim=uid-c-0", "vendor.example.com/gpu=gpu-3"),
                ),
                ("r", f"{POOL}/{named(api, 'GPU-5')}", ()),
            ]
        }
        assert plugin.calls() == ["allocate GPU-3,GPU-5", "prestart GPU-3,GPU-5"]
        (spec,) = agent.specs().values()
        assert spec["devices"][0]["containerEdits"] == {
            "env": ["VISIBLE_DEVICES=GPU-3,GPU-5"],
            "deviceNodes": [
                {"path": f"/dev/vendor/{one}", "hostPath": f"/dev/vendor/{one}", "permissions": "rw"}
                for one in ("GPU-3", "GPU-5")
            ],
            "mounts": [
                {
                    "hostPath": "/opt/vendor/lib",
                    "containerPath": "/usr/lib/vendor",
                    "options": ["rbind", "rprivate", "ro"],
                }
            ],
        }
        assert agent.logged("annotation of a container is lost: CDI has none")
        assert kubelet.prepare(claim) == answer
        assert plugin.calls() == []
        assert kubelet.unprepare(claim) == {"uid-c": ""}
        assert agent.specs() == {}


def test_a_plugin_in_go_that_crashes_fails_and_changes(peers, host, api):
    with PlayedAgent(host, api.url) as agent, GoKubelet(host / "kr") as kubelet:
        with GoPlugin(host / "dp", count=2) as plugin:
            eventually(lambda: healthy(api) == ["GPU-0", "GPU-1"])
            claim = api.claim("c", ("r", POOL, named(api, "GPU-0")))
            plugin.do("fail no such thing")
            assert kubelet.prepare(claim)["uid-c"] == "plugin example.com/gpu: Allocate: UNKNOWN: no such thing"
            plugin.do("fail ")
            assert isinstance(kubelet.prepare(claim)["uid-c"], list)
            plugin.do("unhealthy GPU-0")
            eventually(lambda: healthy(api) == ["GPU-1"])
            assert agent.logged("device in use is unhealthy or gone")[0]["claim"] == "ns/c"
            plugin.do("healthy GPU-0")
            plugin.do("add GPU-9")
            plugin.do("remove GPU-1")
            eventually(lambda: sorted(healthy(api)) == ["GPU-0", "GPU-9"])
        eventually(lambda: healthy(api) == [])
        with GoPlugin(host / "dp", count=2):
            eventually(lambda: healthy(api) == ["GPU-0", "GPU-1"])
            assert kubelet.unprepare(claim) == {"uid-c": ""}


def test_two_plugins_in_go_and_a_thousand_devices(peers, host, api):
    nics = "n1/example.com/nic"
    with (
        PlayedAgent(host, api.url),
        GoPlugin(host / "dp", count=1000) as gpu,
        GoPlugin(host / "dp", "example.com/nic", count=4, prefix="nic-") as nic,
        GoKubelet(host / "kr") as kubelet,
    ):
        eventually(lambda: len(api.devices(POOL)) == 1000 and len(api.devices(nics)) == 4)
        before = len(api.writes())
        gpu.do("unhealthy GPU-500")
        eventually(lambda: len(healthy(api)) == 999)
        assert len(api.writes()) == before + 1
        claim = api.claim("c", ("g", POOL, named(api, "GPU-999")), ("n", nics, "nic-2"))
        assert [device[1] for device in kubelet.prepare(claim)["uid-c"]] == [
            f"{POOL}/{named(api, 'GPU-999')}",
            f"{nics}/nic-2",
        ]
        assert gpu.calls() == ["allocate GPU-999", "prestart GPU-999"]
        assert nic.calls() == ["allocate nic-2", "prestart nic-2"]


class AgentProcess(Peer):
    """`fairway agent` as a process of its own, that dies at a place in its code if it is told to."""

    def __init__(self, folder, url, dies_before=""):
        program = (
            "import os, sys\n"
            "from fairway.agent.checkpoint import ClaimFiles\n"
            "from fairway.agent.cdi import CdiFolder\n"
            "die = lambda *_: os.kill(os.getpid(), 9)\n"
            f"{dies_before and dies_before + ' = die'}\n"
            "from fairway.cli.main import main\n"
            "main(sys.argv[1:])\n"
        )
        config = folder / "kubeconfig"
        cluster = f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
        contexts = "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
        config.write_text(f"apiVersion: v1\nkind: Config\ncurrent-context: c\n{cluster}{contexts}")
        flags = {
            "node-name": "n1",
            "kubeconfig": config,
            "plugin-dir": folder / "dp",
            "kubelet-plugins": folder / "kp",
            "kubelet-registry": folder / "kr",
            "cdi-dir": folder / "cdi",
            "state-dir": folder / "state",
            "http-address": "127.0.0.1:0",
        }
        super().__init__(
            [sys.executable, "-c", program, "agent", *(f"--{name}={text}" for name, text in flags.items())]
        )

    def ended(self):
        return self.process.wait(60)


@pytest.mark.parametrize("place", ["CdiFolder.write", "ClaimFiles.write", "ClaimFiles.remove", "CdiFolder.remove"])
def test_an_agent_that_is_killed_anywhere_goes_on(peers, host, api, place):
    """Between Allocate and CDI spec, between CDI spec and checkpoint, and between the two steps of unprepare."""
    with AgentProcess(host, api.url, dies_before=place) as agent:
        eventually((host / "dp/kubelet.sock").is_socket)
        with GoPlugin(host / "dp", count=2) as plugin, GoKubelet(host / "kr") as kubelet:
            eventually(lambda: len(api.devices(POOL)) == 2)
            claim = api.claim("c", ("r", POOL, named(api, "GPU-1")))
            kubelet.prepare(claim)
            if place.endswith("remove"):
                kubelet.unprepare(claim)
            assert agent.ended() == -signal.SIGKILL
            assert plugin.calls() == ["allocate GPU-1", "prestart GPU-1"]
    (host / "kr/devices.fairway.dev-reg.sock").unlink(missing_ok=True)
    with AgentProcess(host, api.url) as agent:
        eventually((host / "kr/devices.fairway.dev-reg.sock").is_socket)
        eventually((host / "dp/kubelet.sock").is_socket)
        with GoPlugin(host / "dp", count=2) as plugin, GoKubelet(host / "kr") as kubelet:
            other = api.claim("d", ("r", POOL, named(api, "GPU-1")))
            if place.endswith("remove"):
                assert kubelet.unprepare(claim) == {"uid-c": ""}
            else:
                eventually(lambda: isinstance(kubelet.prepare(claim)["uid-c"], list))
                assert plugin.calls() == ["allocate GPU-1", "prestart GPU-1"]
                assert "is in use by claim ns/c" in kubelet.prepare(other)["uid-d"]
                assert kubelet.unprepare(claim) == {"uid-c": ""}
            eventually(lambda: isinstance(kubelet.prepare(other)["uid-d"], list))
            assert [path.name for path in (host / "cdi").iterdir()] == ["devices.fairway.dev-claim_uid-d.json"]
            os.kill(agent.process.pid, signal.SIGTERM)
            assert agent.ended() == 0


def test_a_signal_ends_the_agent_and_leaves_what_is_published(peers, host, api):
    with AgentProcess(host, api.url) as agent:
        eventually((host / "dp/kubelet.sock").is_socket)
        with GoPlugin(host / "dp", count=2):
            eventually(lambda: len(api.devices(POOL)) == 2)
            os.kill(agent.process.pid, signal.SIGTERM)
            assert agent.ended() == 0
    assert len(api.devices(POOL)) == 2
    assert not list((host / "kr").iterdir())
