"""Devices that the host itself shows in sysfs, for hosts without plugins: PCI devices, NUMA nodes, RDMA ports.

Only what is there is read, and nothing is opened for writing. A file that cannot be read leaves its attribute out; a
folder that is not there means that the host has none of those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from fairway.agent.limits import MAX_DEVICES
from fairway.agent.mapping import MAX_TEXT, typed
from fairway.agent.offers import ListedDevice
from fairway.api.devices import DeviceAttribute, DeviceCapacity
from fairway.errors import InputError

SYSFS = Path("/sys")

_CLASSES = {"0x02": "network", "0x03": "display", "0x0108": "nvme", "0x12": "accelerator", "0x0b40": "coprocessor"}
"""By the first digits of the PCI class; others (bridges, controllers) are nothing that a pod asks for."""
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NODE = re.compile(r"node([0-9]{1,5})")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_RATE = re.compile(r"([0-9]+)(?:\.[0-9]+)? Gb/sec")
_MAX_FILE = 64 << 10

Facts = dict[str, DeviceAttribute]


def discover(kinds: Sequence[str], sysfs: Path = SYSFS) -> dict[str, Sequence[ListedDevice]]:
    """The devices of each kind that was asked for."""
    return {kind: tuple(islice(_SOURCES[kind](sysfs), MAX_DEVICES)) for kind in kinds}


def read_kinds(text: str) -> tuple[str, ...]:
    """`pci,numa,rdma` as names; InputError names what is not one."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in _SOURCES:
            raise InputError(f"discover: {name!r} is not known, expected some of {', '.join(_SOURCES)}")
    return names


def _pci(sysfs: Path) -> Iterator[ListedDevice]:
    for folder in _entries(sysfs / "bus/pci/devices", _ADDRESS):
        code = _text(folder / "class")
        found = next((name for prefix, name in _CLASSES.items() if code.startswith(prefix)), "")
        if not found:
            continue
        facts: Facts = {"class": typed(found), **_texts(folder, "vendor", "device"), **_pci_place(folder)}
        link = folder / "driver"
        if link.exists():
            facts["driver"] = typed(link.resolve().name[:MAX_TEXT])
        yield ListedDevice(folder.name, numa=_numa(folder), attributes=facts)


def _pci_place(folder: Path) -> Facts:
    """Kubernetes' own names for where a device is, so that claims can ask for two on one root."""
    facts: Facts = {"resource.kubernetes.io/pciBusID": typed(folder.name)}
    root = next((part for part in folder.resolve().parts if _ROOT.fullmatch(part)), "")
    if root:
        facts["resource.kubernetes.io/pcieRoot"] = typed(root)
    return facts


def _numa_nodes(sysfs: Path) -> Iterator[ListedDevice]:
    for folder in _entries(sysfs / "devices/system/node", _NODE):
        number = int(folder.name.removeprefix("node"))
        processors = _text(folder / "cpulist")
        capacity = {}
        count = _processors(processors)
        if count:
            capacity["cpus"] = DeviceCapacity(str(count))
        found = re.search(r"MemTotal:\s+([0-9]+) kB", _text(folder / "meminfo"))
        if found:
            capacity["memory"] = DeviceCapacity(f"{found[1]}Ki")
        facts = {"cpuList": typed(processors)} if 0 < len(processors) <= MAX_TEXT else {}
        yield ListedDevice(folder.name, numa=(number,), attributes=facts, capacity=capacity)


def _rdma(sysfs: Path) -> Iterator[ListedDevice]:
    for folder in _entries(sysfs / "class/infiniband", re.compile(r"[A-Za-z0-9_.-]{1,64}")):
        facts: Facts = {}
        healthy = False
        rates = []
        for port in _entries(folder / "ports", re.compile(r"[0-9]{1,3}")):
            healthy |= "ACTIVE" in _text(port / "state")
            link = _text(port / "link_layer")
            if link:
                facts["linkLayer"] = typed(link[:MAX_TEXT])
            rate = _RATE.match(_text(port / "rate"))
            rates += [int(rate[1])] if rate else []
        if rates:
            facts["rateGbps"] = typed(max(rates))
        device = folder / "device"
        if device.exists():
            real = device.resolve()
            if _ADDRESS.fullmatch(real.name):
                facts |= _pci_place(real)
        yield ListedDevice(folder.name, healthy, _numa(device), facts, files=_verbs(sysfs, folder.name))


def _verbs(sysfs: Path, name: str) -> tuple[str, ...]:
    """The device files of an RDMA device, in /dev."""
    found = [
        f"/dev/infiniband/{entry.name}"
        for entry in _entries(sysfs / "class/infiniband_verbs", re.compile(r"uverbs[0-9]+"))
        if _text(entry / "ibdev") == name
    ]
    return (*found, "/dev/infiniband/rdma_cm") if found else ()


_SOURCES: dict[str, Callable[[Path], Iterator[ListedDevice]]] = {"pci": _pci, "numa": _numa_nodes, "rdma": _rdma}


# -- sysfs -------------------------------------------------------------------------------------------------------


def _entries(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_FILE).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _texts(folder: Path, *names: str) -> Facts:
    found = {name: _text(folder / name) for name in names}
    return {name: typed(text) for name, text in found.items() if 0 < len(text) <= MAX_TEXT}


def _numa(folder: Path) -> tuple[int, ...]:
    """-1 means that the host does not know."""
    text = _text(folder / "numa_node")
    return (int(text),) if re.fullmatch(r"[0-9]{1,9}", text) else ()


def _processors(text: str) -> int:
    """How many there are in a list like `0-3,8`."""
    count = 0
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
        if found:
            count += int(found[2] or found[1]) - int(found[1]) + 1
    return max(count, 0)
