"""FGD: scores and choices by the definition of fragmentation."""

from __future__ import annotations

from math import exp
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.scheduler.framework.session import Session
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import ClusterState
from support.devices import asking, device_node, gpu, kind_class
from support.effort import examples
from support.engine import bound, decided, state_of
from support.engine import policy as make_policy
from support.objects import NOW, pod

ANY = kind_class("any", "nvidia-gpu")
PLUGINS = ("priority", "gang", "drf", "predicates", "proportion")
POLICY = make_policy(plugins=PLUGINS, devices={}, fgd={})


def gpus(name: str, count: int, cpu: int = 16) -> Any:
    return device_node(name, *(gpu(f"g{i}", shareable=True) for i in range(count)), cpu=cpu)


Typical = list[tuple[int, int, int, int]]
"""cpu, number of GPUs, milli of each, how many such pods."""


def frag(cpu: int, left: list[int], typical: Typical) -> float:
    """F of a node, word by word."""
    total = sum(count for *_, count in typical)
    found = 0.0
    for needs, number, milli, count in typical:
        if not number or cpu < needs or sum(have >= milli for have in left) < number:
            part = sum(left)
        else:
            part = sum(have for have in left if have < milli)
        found += count / total * part
    return found


def score(cpu: int, left: list[int], asked: tuple[int, int, int], typical: Typical) -> int:
    needs, number, milli = asked
    before = frag(cpu, left, typical)
    if number == 1 and milli < 1000:
        options = [[*left[:i], left[i] - milli, *left[i + 1 :]] for i in range(len(left)) if left[i] >= milli]
    else:
        free = [i for i, have in enumerate(left) if have == 1000][:number]
        options = [[0 if i in free else have for i, have in enumerate(left)]]
    after = min(frag(cpu - needs, option, typical) for option in options)
    return int(100 / (1 + exp(-(before - after) / 1000)))


def asked_as(number: int, milli: int) -> dict[str, str]:
    return {"any": str(number) if milli == 1000 else f"{milli}m"} if number else {}


kinds = st.sampled_from([(1, 0, 0), (2, 1, 1000), (4, 2, 1000), (1, 1, 500), (2, 1, 300), (8, 1, 700)])


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(kinds, st.integers(1, 4)), min_size=1, max_size=4, unique_by=lambda k: k[0]), st.data())
def test_scores_are_the_definition(workload: list[tuple[tuple[int, int, int], int]], data: st.DataObject) -> None:
    used = data.draw(st.lists(st.sampled_from([0, 300, 500, 1000]), min_size=1, max_size=4))
    cpu = data.draw(st.integers(4, 16))
    running = [
        asking(f"r{i}", node="n1", cpu=0, classes={"any": f"{milli}m"}, record={f"any_g{i}": f"{milli}m"})
        for i, milli in enumerate(used)
        if milli
    ]
    waiting = [
        asking(f"w{number}-{i}", cpu=needs, classes=asked_as(gpus_, milli))
        for number, ((needs, gpus_, milli), count) in enumerate(workload)
        for i in range(count)
    ]
    state = state_of(ANY, gpus("n1", len(used), cpu), running, waiting)
    session = Session(state, POLICY, NOW, default_registry())
    typical: Typical = _typical([*running, *waiting])
    left = [1000 - milli for milli in used]
    for task in state.tasks.values():
        if task.state == 0 and session.nodes.kernel.has_capacity(task.shape):
            asked = next(k for k, _ in workload if _same(task.shape, k))
            found = session.plugins.by_plugin("score")["fgd"](task.shape, session.nodes.kernel.view())
            assert int(found[0]) == score(cpu * 1000, left, (asked[0] * 1000, *asked[1:]), typical)


def _same(shape: Any, kind: tuple[int, int, int]) -> bool:
    needs, number, milli = kind
    asks = shape.devices.classes[0] if shape.devices else None
    mine = (0, 0) if asks is None else (asks.units, 1000) if asks.units else (1, asks.fractions[0])
    return dict(shape.vector).get(0) == needs * 1000 and mine == ((number, milli) if number else (0, 0))


def _typical(pods: list[Any]) -> Typical:
    """Distinct kinds by decreasing count until 95 % of all."""
    counts: dict[tuple[int, int, int], int] = {}
    state: ClusterState = state_of(pods)
    for task in state.tasks.values():
        asks = task.shape.devices.classes[0] if task.shape.devices else None
        mine = (0, 0) if asks is None else (asks.units, 1000) if asks.units else (1, asks.fractions[0])
        key = (dict(task.shape.vector).get(0, 0), *mine)
        counts[key] = counts.get(key, 0) + 1
    total, so_far, found = sum(counts.values()), 0, []
    for key, count in sorted(counts.items(), key=lambda item: (-item[1], _order(item[0]))):
        if so_far * 100 >= total * 95:
            break
        found.append((*key, count))
        so_far += count
    return found


def _order(key: tuple[int, int, int]) -> tuple[int, tuple[Any, ...]]:
    return key[0], ((("any", key[1], key[2]),) if key[1] else ())


def test_a_part_goes_where_the_rest_is_of_use() -> None:
    """Halves are typical: a half joins the half that is taken, and leaves the whole device whole."""
    half = asking("h", node="n1", cpu=1, classes={"any": "500m"}, record={"any_g1": "500m"})
    waiting = [asking(f"w{i}", cpu=1, classes={"any": "1"}, created=9) for i in range(3)]
    plan = decided(
        state_of(ANY, gpus("n1", 2), half, asking("p", cpu=1, classes={"any": "500m"}, created=1), waiting), POLICY
    )
    (first,) = [binding for binding in plan.bindings if binding.pod == "default/p"]
    assert [device.device for device in first.devices] == ["g1"]


def test_the_node_that_is_fragmented_least_is_taken() -> None:
    used = asking("h", node="n2", cpu=1, classes={"any": "500m"}, record={"any_g0": "500m"})
    wholes = [asking(f"w{i}", cpu=1, classes={"any": "1"}, created=9) for i in range(4)]
    plan = decided(
        state_of(
            ANY, gpus("n1", 1), gpus("n2", 1), used, asking("p", cpu=1, classes={"any": "500m"}, created=1), wholes
        ),
        POLICY,
    )
    assert bound(plan)["p"] == "n2"


def test_pods_without_devices_keep_off_the_cpu_that_gpus_need() -> None:
    nodes = [gpus("n1", 1, cpu=4), device_node("n2", cpu=4)]
    plan = decided(
        state_of(
            ANY,
            nodes,
            pod("p", cpu=2, created=1),
            [asking(f"w{i}", cpu=4, classes={"any": 1}, created=9) for i in range(3)],
        ),
        POLICY,
    )
    assert bound(plan)["p"] == "n2"


def test_the_device_depends_on_the_cpu_that_the_node_has_left() -> None:
    """Two nodes with the same devices, 400 and 700 thousandths left. Who wants 700 needs much cpu: where there is
    enough of it the 700 are kept whole, elsewhere the 400, which others want.
    """
    nodes = [
        device_node(name, *(gpu(f"g{i}", shareable=True) for i in range(2)), cpu=cpu, labels={"name": name})
        for name, cpu in (("n1", 16), ("n2", 4))
    ]
    running = [
        asking(f"{name}-{i}", node=name, cpu=0, classes={"any": f"{milli}m"}, record={f"any_g{i}": f"{milli}m"})
        for name in ("n1", "n2")
        for i, milli in enumerate((600, 300))
    ]
    typical = [asking(f"small{i}", cpu=0, classes={"any": "400m"}, created=9) for i in range(6)]
    typical += [asking(f"large{i}", cpu=8, classes={"any": "700m"}, created=9) for i in range(20)]
    first, second = (
        asking(f"p{i}", cpu=1, classes={"any": "100m"}, created=i, spec={"nodeSelector": {"name": f"n{i}"}})
        for i in (1, 2)
    )
    plan = decided(state_of(ANY, nodes, running, typical, first, second), POLICY)
    taken = {binding.pod: binding.devices[0].device for binding in plan.bindings}
    assert (taken["default/p1"], taken["default/p2"]) == ("g0", "g1")
