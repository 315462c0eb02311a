"""Devices of a host from a made sysfs tree."""

from __future__ import annotations

import pytest

from agent.players import PlayedAgent, PlayedKubelet, eventually
from fairway.agent.discovery import discover


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def pci(sysfs, root, address, code, numa="0", driver=""):
    real = sysfs / f"devices/{root}/{address}"
    write(real / "class", code)
    write(real / "vendor", "0x10de")
    write(real / "device", "0x20b0")
    write(real / "numa_node", numa)
    link = sysfs / "bus/pci/devices" / address
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(real)
    if driver:
        target = sysfs / "bus/pci/drivers" / driver
        target.mkdir(parents=True, exist_ok=True)
        (real / "driver").symlink_to(target)
    return real


@pytest.fixture(name="sysfs")
def a_made_tree(tmp_path):
    pci(tmp_path, "pci0000:3a", "0000:3b:00.0", "0x030200", "1", "nvidia")
    pci(tmp_path, "pci0000:00", "0000:00:1f.0", "0x060100")  # a bridge
    pci(tmp_path, "pci0000:00", "0000:01:00.0", "0x010802", "-1")
    nic = pci(tmp_path, "pci0000:5d", "0000:5e:00.0", "0x020700", "0")
    for number, cpus in enumerate(("0-15,32-47", "16-31,48-63")):
        node = tmp_path / f"devices/system/node/node{number}"
        write(node / "cpulist", cpus)
        write(node / "meminfo", f"Node {number} MemTotal:       263855400 kB\nNode {number} MemFree: 1 kB")
    write(tmp_path / "devices/system/node/online", "0-1")
    port = nic / "infiniband/mlx5_0/ports/1"
    write(port / "state", "4: ACTIVE")
    write(port / "rate", "200 Gb/sec (4X HDR)")
    write(port / "link_layer", "InfiniBand")
    (nic / "infiniband/mlx5_0/device").symlink_to(nic)
    (tmp_path / "class/infiniband").mkdir(parents=True)
    (tmp_path / "class/infiniband/mlx5_0").symlink_to(nic / "infiniband/mlx5_0")
    write(tmp_path / "class/infiniband_verbs/uverbs0/ibdev", "mlx5_0")
    return tmp_path


def values(device):
    found = {}
    for name, one in device.attributes.items():
        found[name] = next(value for value in (one.int_value, one.string_value) if value is not None)
    return found


def test_pci_devices_that_pods_ask_for(sysfs):
    (found,) = discover(["pci"], sysfs).values()
    assert [device.id for device in found] == ["0000:01:00.0", "0000:3b:00.0", "0000:5e:00.0"]
    disk, gpu, nic = found
    assert values(gpu) == {
        "class": "display",
        "vendor": "0x10de",
        "device": "0x20b0",
        "driver": "nvidia",
        "resource.kubernetes.io/pciBusID": "0000:3b:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:3a",
    }
    assert [device.numa for device in found] == [(), (1,), (0,)]
    assert [values(device)["class"] for device in (disk, nic)] == ["nvme", "network"]


def test_numa_nodes(sysfs):
    (found,) = discover(["numa"], sysfs).values()
    assert [(device.id, device.numa) for device in found] == [("node0", (0,)), ("node1", (1,))]
    assert values(found[0]) == {"cpuList": "0-15,32-47"}
    assert {name: one.value for name, one in found[0].capacity.items()} == {"cpus": "32", "memory": "263855400Ki"}


def test_rdma_devices_with_their_files(sysfs):
    ((device,),) = discover(["rdma"], sysfs).values()
    assert device.id == "mlx5_0"
    assert device.healthy
    assert device.numa == (0,)
    assert values(device) == {
        "linkLayer": "InfiniBand",
        "rateGbps": 200,
        "resource.kubernetes.io/pciBusID": "0000:5e:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:5d",
    }
    assert device.files == ("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm")
    write(sysfs / "class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
    ((device,),) = discover(["rdma"], sysfs).values()
    assert not device.healthy


def test_a_host_without_any_of_it_has_no_devices(tmp_path):
    assert discover(["pci", "numa", "rdma"], tmp_path) == {"pci": (), "numa": (), "rdma": ()}


def test_files_with_nonsense_leave_their_attribute_out(sysfs):
    write(sysfs / "bus/pci/devices/0000:3b:00.0/vendor", "x" * 5000)
    write(sysfs / "bus/pci/devices/0000:3b:00.0/numa_node", "many")
    (sysfs / "class/infiniband/mlx5_0/ports/1/rate").write_bytes(b"\xff\x00")
    found = discover(["pci", "rdma"], sysfs)
    gpu = next(device for device in found["pci"] if device.id == "0000:3b:00.0")
    assert "vendor" not in gpu.attributes
    assert gpu.numa == ()
    assert "rateGbps" not in found["rdma"][0].attributes


def test_found_devices_are_published_prepared_and_withdrawn_when_they_go(players, host, api, sysfs):
    with PlayedAgent(host, api.url, discover=("pci", "numa", "rdma"), sysfs=sysfs) as agent:
        pools = {"n1/pci": 3, "n1/numa": 2, "n1/rdma": 1}
        eventually(lambda: {pool: len(api.devices(pool)) for pool in pools} == pools)
        kubelet = PlayedKubelet(players, agent.settings.kubelet_registry).register()
        (rdma,) = api.devices("n1/rdma")
        both = api.claim("c", ("fast", "n1/rdma", rdma), ("near", "n1/numa", "node0"))
        (devices,) = kubelet.prepare(both).values()
        assert [one[:2] for one in devices] == [("fast", f"n1/rdma/{rdma}"), ("near", "n1/numa/node0")]
        (spec,) = agent.specs().values()
        files = [one["hostPath"] for one in spec["devices"][0]["containerEdits"]["deviceNodes"]]
        assert files == ["/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"]
        assert spec["devices"][1]["containerEdits"], "CDI wants each device to change something"
        (sysfs / "class/infiniband/mlx5_0").unlink()
        eventually(lambda: api.devices("n1/rdma") == {})
        assert agent.logged("device in use is unhealthy or gone")
        again = api.claim("d", ("r", "n1/rdma", rdma))
        assert "does not exist" in kubelet.prepare(again)["uid-d"]
        assert kubelet.unprepare(both) == {"uid-c": ""}
