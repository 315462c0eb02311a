"""Pure parts: names, pools, and the writes that bring a server from what it has to what it should have."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.agent.inventory import DevicePool, build_pools
from fairway.agent.mapping import DeviceMapping, MappedGroup, MappedResource
from fairway.agent.names import device_names, pool_name, resource_problem
from fairway.agent.offers import ListedDevice
from fairway.agent.slices import write_plan
from fairway.api.devices import ResourceSlice
from fairway.api.meta import OwnerReference
from fairway.devices.model.device import from_slice

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NODE = OwnerReference(kind="Node", name="n1", uid="u", api_version="v1")
IDS = st.one_of(
    st.text(min_size=1, max_size=80), st.sampled_from(["a", "A", "a-", "GPU-1", "gpu_1", "gpu-1", "0000:3b:00.0"])
)


@given(st.lists(IDS, max_size=12), st.randoms())
def test_names_of_devices_are_labels_all_different_in_any_order(ids, random):
    names = device_names(ids)
    assert set(names) == set(ids)
    assert len(set(names.values())) == len(names)
    assert all(LABEL.fullmatch(name) for name in names.values())
    assert all(names[one] == one for one in ids if LABEL.fullmatch(one))
    random.shuffle(ids)
    assert device_names(ids) == names


def test_an_id_that_looks_like_the_name_of_another_is_told_apart():
    (made,) = device_names(["GPU"]).values()
    names = device_names(["GPU", made])
    assert names[made] == made
    assert names["GPU"] != made


def test_names_of_pools_and_resources():
    assert pool_name("n1", "example.com/gpu") == "n1/example.com/gpu"
    assert re.fullmatch(r"n1/example\.com/gpu-x-[0-9a-f]{8}", pool_name("n1", "example.com/GPU_x"))
    assert resource_problem("example.com/GPU_x") == ""
    for wrong in (
        "",
        "gpu",
        "/gpu",
        "a/",
        "a/b/c",
        "x.kubernetes.io/a",
        "requests.x/a",
        "a" * 300 + "/b",
        "a/" + "b" * 64,
    ):
        assert resource_problem(wrong), wrong


def test_a_group_is_read_back_with_all_its_members():
    ids = [f"GPU-{number:08}" for number in range(8)]
    group = MappedGroup(name="board", members=tuple(ids))
    mapping = DeviceMapping([MappedResource(resource="x.com/gpu", groups=(group,))])
    (pool,) = build_pools("n1", {"x.com/gpu": [ListedDevice(one) for one in ids]}, mapping, {}).values()
    (written,) = write_plan(NODE, "d.x", pool, []).written
    (board,) = [device for device in from_slice(written.spec) if device.name == "board"]
    assert board.members == tuple(device_names(ids)[one] for one in ids)
    assert pool.devices["board"].ids == tuple(ids)


def test_a_group_is_as_healthy_as_its_members_and_needs_them_all():
    group = MappedGroup(name="pair", members=("a", "b"))
    mapping = DeviceMapping([MappedResource(resource="x.com/gpu", groups=(group,))])

    def pool(*listed):
        (found,) = build_pools("n1", {"x.com/gpu": listed}, mapping, {}).values()
        return found.devices

    assert pool(ListedDevice("a"), ListedDevice("b"))["pair"].healthy
    assert not pool(ListedDevice("a"), ListedDevice("b", healthy=False))["pair"].healthy
    assert "pair" not in pool(ListedDevice("a"))


LISTS = st.dictionaries(st.integers(0, 150), st.booleans(), max_size=150)


@given(st.lists(LISTS, min_size=1, max_size=4))
def test_writes_lead_to_a_complete_pool_and_change_no_more_than_they_must(lists):
    """Carried out one by one: at no step does a reader see a complete pool that never was."""
    server: dict[str, ResourceSlice] = {}
    version = 0
    seen: list[dict[str, bool]] = [{}]
    for listed in lists:
        offers = {"x.com/gpu": [ListedDevice(f"g{number}", healthy) for number, healthy in listed.items()]}
        (pool,) = build_pools("n1", offers, DeviceMapping(), {}).values()
        wanted = {name: device.healthy for name, device in pool.devices.items()}
        plan = write_plan(NODE, "d.x", pool, list(server.values()))
        same_names = set(seen[-1]) == set(wanted) and bool(server)
        changed = {name for name in wanted if seen[-1].get(name) != wanted[name]}
        if same_names:
            assert len(plan.written) <= len(changed)
            assert not plan.deleted
        for one in plan.written:
            version += 1
            before = server.get(one.metadata.name)
            assert one.metadata.resource_version == (before.metadata.resource_version if before else "")
            server[one.metadata.name] = replace(one, metadata=replace(one.metadata, resource_version=str(version)))
            _check_view(server, seen[-1], wanted, same_names)
        for one in plan.deleted:
            del server[one.metadata.name]
            _check_view(server, seen[-1], wanted, same_names)
        assert _complete(server) == wanted
        assert not write_plan(NODE, "d.x", pool, list(server.values())).written
        seen.append(wanted)
    assert len(write_plan(NODE, "d.x", None, list(server.values())).deleted) == len(server)


def _complete(server: dict[str, ResourceSlice]) -> dict[str, bool] | None:
    newest = max((one.spec.pool.generation for one in server.values()), default=0)
    current = [one.spec for one in server.values() if one.spec.pool.generation == newest]
    if not current or len(current) != current[0].pool.resource_slice_count:
        return None
    return {device.name: not device.taints for spec in current for device in spec.devices}


def _check_view(server, before, after, same_names) -> None:
    view = _complete(server)
    if view is None:
        return
    if same_names:
        assert all(view[name] in (before[name], after[name]) for name in view)
    else:
        assert view in (before, after)


def test_a_pool_without_devices_says_so():
    plan = write_plan(NODE, "d.x", DevicePool("n1/x", "x"), [])
    assert [one.spec.devices for one in plan.written] == [()]


def test_a_pool_that_another_gave_the_highest_generation_is_put_right():
    (pool,) = build_pools("n1", {"x.com/gpu": [ListedDevice("g0")]}, DeviceMapping(), {}).values()
    (mine,) = write_plan(NODE, "d.x", pool, []).written
    about = replace(mine.spec.pool, generation=2**63 - 1)
    lie = replace(mine, spec=replace(mine.spec, pool=about, devices=()), metadata=replace(mine.metadata, name="lie"))
    plan = write_plan(NODE, "d.x", pool, [mine, lie])
    assert [one.metadata.name for one in plan.deleted] == ["lie"]
    server = {one.metadata.name: one for one in (mine, *plan.written)}
    assert _complete(server) == {"g0": True}
    assert {one.spec.pool.generation for one in server.values()} == {1}
    assert not write_plan(NODE, "d.x", pool, list(server.values())).written
