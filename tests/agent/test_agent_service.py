"""The agent between a plugin, a kubelet and an API server, all on real sockets."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from agent.players import Looped, PlayedAgent, PlayedKubelet, PlayedPlugin, eventually
from agent.small_api import SmallApi

GPU = "example.com/gpu"
POOL = "n1/example.com/gpu"


@pytest.fixture(name="agent")
def an_agent(host: Path, api: SmallApi) -> Iterator[PlayedAgent]:
    with PlayedAgent(host, api.url) as agent:
        yield agent
    assert agent.status == 0
    assert api.problems == []


def plugin(players: Looped, agent: PlayedAgent, resource: str = GPU, ids: tuple[str, ...] = ("g0", "g1"), **more):
    return PlayedPlugin(players, agent.settings.plugin_folder, resource, list(ids), **more)


def kubelet(players: Looped, agent: PlayedAgent) -> PlayedKubelet:
    return PlayedKubelet(players, agent.settings.kubelet_registry).register()


def healthy(api: SmallApi, pool: str = POOL) -> dict[str, bool]:
    return {name: "taints" not in device for name, device in api.devices(pool).items()}


def test_a_plugins_devices_are_published_with_what_it_says(players, agent, api):
    one = plugin(players, agent, ids=("GPU-1", "g0"))
    one.numa = {"g0": [1], "GPU-1": [0, 1]}
    one.start()
    devices = eventually(lambda: api.devices(POOL))
    assert devices["g0"]["attributes"] == {
        "kind": {"string": GPU},
        "id": {"string": "g0"},
        "numaNode": {"int": 1},
    }
    (other,) = set(devices) - {"g0"}
    assert other.startswith("gpu-1-")
    assert devices[other]["attributes"]["numaNodes"] == {"string": "0,1"}
    (slice_,) = api.slices.values()
    assert slice_["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-n1"}
    ]
    one.stop()


def test_a_claim_gets_exactly_its_devices_and_gives_them_back(players, agent, api):
    one = plugin(players, agent, ids=("g0", "g1", "g2"), pre_start=True).start()
    one.annotations = {"vendor/x": "y"}
    eventually(lambda: api.devices(POOL))
    node = kubelet(players, agent)
    claim = api.claim("c", ("gpus", POOL, "g2"), ("gpus", POOL, "g0"), ("other/alt", POOL, "g1"))
    (devices,) = node.prepare(claim).values()
    assert one.calls == ["allocate g2,g0", "prestart g2,g0", "allocate g1", "prestart g1"]
    first, second = "devices.fairway.dev/claim=uid-c-0", "devices.fairway.dev/claim=uid-c-1"
    assert devices == [
        ("gpus", f"{POOL}/g2", (first,)),
        ("gpus", f"{POOL}/g0", ()),
        ("other", f"{POOL}/g1", (second,)),
    ]
    (spec,) = agent.specs().values()
    assert spec["kind"] == "devices.fairway.dev/claim"
    assert [device["name"] for device in spec["devices"]] == ["uid-c-0", "uid-c-1"]
    assert spec["devices"][0]["containerEdits"] == {
        "env": ["VISIBLE=g2,g0"],
        "deviceNodes": [{"path": "/dev/g2", "hostPath": "/dev/g2"}, {"path": "/dev/g0", "hostPath": "/dev/g0"}],
    }
    assert agent.logged("annotation of a container is lost: CDI has none")[0]["annotation"] == "vendor/x"
    assert node.unprepare(claim) == {"uid-c": ""}
    assert agent.specs() == {}
    one.stop()


def test_prepare_and_unprepare_may_be_repeated(players, agent, api):
    one = plugin(players, agent).start()
    eventually(lambda: api.devices(POOL))
    node = kubelet(players, agent)
    claim = api.claim("c", ("r", POOL, "g0"))
    first = node.prepare(claim)
    assert node.prepare(claim) == first
    assert one.calls == ["allocate g0"]
    assert [node.unprepare(claim), node.unprepare(claim)] == [{"uid-c": ""}] * 2
    assert node.unprepare("ns never uid-never") == {"uid-never": ""}
    one.stop()


def test_each_claim_of_a_call_is_answered_for_itself(players, agent, api):
    one = plugin(players, agent).start()
    eventually(lambda: api.devices(POOL))
    node = kubelet(players, agent)
    claims = [
        api.claim("good", ("r", POOL, "g0")),
        api.claim("taken", ("r", POOL, "g0")),
        api.claim("waits"),
        api.claim("elsewhere", ("r", "n2/example.com/gpu", "g0")),
        api.claim("unknown", ("r", POOL, "g9")),
        "ns missing uid-missing",
        "ns good uid-of-another",
        "ns ../../etc uid-x",
        "ns good ../../x",
    ]
    node.prepare(claims[0])  # of two that ask for one device in one call, either may get it
    answer = node.prepare(*claims)
    assert answer.pop("uid-good") == [("r", f"{POOL}/g0", ("devices.fairway.dev/claim=uid-good-0",))]
    assert answer == {
        "uid-taken": "claim ns/taken: device g0 of example.com/gpu is in use by claim ns/good",
        "uid-waits": "claim ns/waits is not allocated",
        "uid-elsewhere": "claim ns/elsewhere: pool n2/example.com/gpu is not on this node, or its plugin has not "
        "registered",
        "uid-unknown": f"claim ns/unknown: device g9 of pool {POOL} does not exist",
        "uid-missing": "claim ns/missing cannot be read: not found",
        "uid-of-another": "claim ns/good has the uid uid-good, expected uid-of-another",
        "uid-x": "'../../etc' is not the name of a namespace or claim",
        "../../x": "'../../x' is not a uid",
    }
    assert node.prepare(claims[1])["uid-taken"].endswith("is in use by claim ns/good")
    node.unprepare(claims[0])
    assert node.prepare(claims[1])["uid-taken"][0][1] == f"{POOL}/g0"
    one.stop()


def test_a_plugin_that_crashes_loses_its_health_and_gets_it_back(players, agent, api):
    one = plugin(players, agent).start()
    eventually(lambda: healthy(api) == {"g0": True, "g1": True})
    node = kubelet(players, agent)
    held = api.claim("held", ("r", POOL, "g0"))
    node.prepare(held)
    one.stop()
    eventually(lambda: healthy(api) == {"g0": False, "g1": False})
    assert api.devices(POOL)["g1"]["attributes"]["healthy"] == {"bool": False}
    assert agent.logged("device in use is unhealthy or gone")[0]["claim"] == "ns/held"
    claim = api.claim("c", ("r", POOL, "g1"))
    assert node.prepare(claim)["uid-c"] == f"claim ns/c: device g1 of pool {POOL} is unhealthy"
    one.start()
    eventually(lambda: healthy(api) == {"g0": True, "g1": True})
    assert isinstance(node.prepare(claim)["uid-c"], list)
    assert node.unprepare(held) == {"uid-held": ""}
    one.stop()


def test_a_plugin_that_comes_back_on_its_socket_need_not_register(players, agent, api):
    one = plugin(players, agent).start()
    eventually(lambda: healthy(api) == {"g0": True, "g1": True})
    one.stop()
    eventually(lambda: healthy(api) == {"g0": False, "g1": False})
    one.start(register=False)
    eventually(lambda: healthy(api) == {"g0": True, "g1": True})
    one.stop()


def test_one_device_that_turns_unhealthy_costs_one_write(players, agent, api):
    one = plugin(players, agent, ids=tuple(f"g{number:03}" for number in range(200))).start()
    eventually(lambda: len(api.devices(POOL)) == 200)
    before = len(api.writes())
    generation = {item["spec"]["pool"]["generation"] for item in api.slices.values()}
    one.changes({"g150": "Unhealthy"})
    eventually(lambda: not healthy(api)["g150"])
    assert len(api.writes()) == before + 1
    assert {item["spec"]["pool"]["generation"] for item in api.slices.values()} == generation
    one.changes({"g000": ""})
    eventually(lambda: len(api.devices(POOL)) == 199)
    one.stop()


def test_two_plugins_do_not_disturb_each_other(players, agent, api):
    gpus = plugin(players, agent).start()
    nics = plugin(players, agent, "example.com/nic", ("n0",)).start()
    pool = "n1/example.com/nic"
    eventually(lambda: api.devices(POOL) and api.devices(pool))
    node = kubelet(players, agent)
    (devices,) = node.prepare(api.claim("c", ("r", POOL, "g0"), ("r", pool, "n0"))).values()
    assert [device[2] for device in devices] == [
        ("devices.fairway.dev/claim=uid-c-0",),
        ("devices.fairway.dev/claim=uid-c-1",),
    ]
    nics.stop()
    eventually(lambda: healthy(api, pool) == {"n0": False})
    assert healthy(api) == {"g0": True, "g1": True}
    gpus.stop()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"version": "v1alpha1"}, "version 'v1alpha1' is not supported, expected v1beta1"),
        ({"resource_name": "gpu"}, "'gpu' is not the name of an extended resource, expected domain/name"),
        ({"resource_name": "kubernetes.io/gpu"}, "is in a domain of Kubernetes"),
        ({"endpoint": "../other.sock"}, "endpoint '../other.sock' is not the name of a socket"),
        ({"endpoint": "kubelet.sock"}, "is not the name of a socket"),
        ({"endpoint": "x" * 200}, "longer than 107 bytes"),
    ],
)
def test_a_registration_that_cannot_be_used_is_refused(players, agent, fields, words):
    one = plugin(players, agent)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        one.register(**fields)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in (caught.value.details() or "")


def test_what_a_plugin_answers_wrongly_is_said_to_the_kubelet(players, agent, api):
    one = plugin(players, agent).start()
    eventually(lambda: api.devices(POOL))
    node = kubelet(players, agent)
    claim = api.claim("c", ("r", POOL, "g0"))
    one.failing = "out of\norder"
    assert node.prepare(claim)["uid-c"] == "plugin example.com/gpu: Allocate: INTERNAL: out of order"
    one.failing = ""
    one.edit = lambda answer: answer.mounts.add(host_path="/etc/../x", container_path="/y")
    assert "'/etc/../x' is not a path" in node.prepare(claim)["uid-c"]
    one.edit = lambda answer: answer.envs.update({f"V{number}": "" for number in range(2000)})
    assert "more than 1000 variables" in node.prepare(claim)["uid-c"]
    assert agent.specs() == {}
    one.edit = lambda answer: None
    assert isinstance(node.prepare(claim)["uid-c"], list)
    one.stop()


def test_a_mapping_that_changes_is_used_and_one_with_a_mistake_is_not(players, host, api):
    path = host / "map.yaml"
    head = "apiVersion: fairway.dev/v1alpha1\nkind: DeviceMapping\n"
    path.write_text(head + "resources: [{resource: example.com/gpu, attributes: {model: a}}]")
    with PlayedAgent(host, api.url, mapping=path, discover=("numa",), sysfs=host / "sys") as agent:
        one = plugin(players, agent).start()

        def model():
            return api.devices(POOL).get("g0", {}).get("attributes", {}).get("model")

        eventually(lambda: model() == {"string": "a"})
        path.write_text(head + "resources: 1")
        line = eventually(lambda: agent.logged("mapping refused, the last good one stays in use"))[0]
        assert "resources: is the number 1, expected a list" in line["why"]
        assert model() == {"string": "a"}
        path.write_text(head + "resources: [{resource: example.com/gpu, attributes: {model: b}}]")
        eventually(lambda: model() == {"string": "b"})
        (host / "sys/devices/system/node/node0").mkdir(parents=True)
        (host / "sys/devices/system/node/node0/cpulist").write_text("0-3")
        found = eventually(lambda: api.devices("n1/numa"))["node0"]
        assert found["capacity"] == {"cpus": {"value": "4"}}
        node = kubelet(players, agent)
        assert node.prepare(api.claim("c", ("r", "n1/numa", "node0")))["uid-c"][0][1] == "n1/numa/node0"
        one.stop()


def test_health_and_metrics(players, host, api):
    with PlayedAgent(host, api.url, http_address="127.0.0.1:0") as agent:

        def get(path):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{agent.agent.health.port}{path}") as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        assert get("/healthz") == (200, "ok\n")
        eventually(lambda: get("/readyz") == (503, "not registered with the kubelet yet\n"))
        node = kubelet(players, agent)
        eventually(lambda: get("/readyz") == (200, "ok\n"))
        one = plugin(players, agent).start()
        eventually(lambda: api.devices(POOL))
        node.prepare(api.claim("c", ("r", POOL, "g0")), api.claim("d"))
        text = get("/metrics")[1]
        for line in (
            'fairway_agent_devices{health="healthy",resource="example.com/gpu"} 2.0',
            "fairway_agent_plugins 1.0",
            "fairway_agent_prepared_claims 1.0",
            "fairway_agent_registered 1.0",
            'fairway_agent_claims_total{call="prepare",result="done"} 1.0',
            'fairway_agent_claims_total{call="prepare",result="failed"} 1.0',
        ):
            assert line in text
        one.stop()
