"""Two allocators on one set of devices, in any order of events: no pod is bound to a device that another claim had
first, and once the other allocator rests every device that is free is used.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.two_allocators import TwoAllocators
from support.effort import examples

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["think", "show", "show", "arrive", "arrive", "other takes", "other takes", "other frees"]),
        st.integers(0, 30),
    ),
    max_size=60,
)


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 5), STEPS)
def test_a_device_is_given_by_one_of_them(nodes: int, devices: int, pods: int, steps: list[tuple[str, int]]) -> None:
    run = TwoAllocators(nodes, devices, pods)
    for step, number in steps:
        match step:
            case "think":
                run.think()
            case "show":
                run.show()
            case "arrive":
                run.arrive(number)
            case "other takes":
                run.other(number, run.devices[number % len(run.devices)])
            case "other frees":
                run.other(number, None)
    run.settle()
    assert run.broken == []
    bound = run.bound()
    used = {device for device in run.devices if run.holders(device)}
    assert len(bound) == pods or len(used) == len(run.devices), f"{bound} are bound, {used} are in use"
    for name in bound:
        assert run.claim(f"ours-{name.removeprefix('p-')}").status.allocation is not None
    held = [key for device in run.devices for key in run.holders(device) if key[2].startswith("ours")]
    assert sorted(key[2].replace("ours", "p") for key in held) == bound, "no claim is allocated for a pod that waits"


def test_without_another_allocator_all_devices_are_used() -> None:
    run = TwoAllocators(2, 2, 6)
    run.settle()
    assert len(run.bound()) == 4


def test_the_second_writer_gives_way_and_the_first_goes_on() -> None:
    run = TwoAllocators(1, 1, 1)
    run.show(len(run.watch))
    run.think()
    run.other(0, run.devices[0])  # before ours arrives, and not shown yet
    run.arrive(0)
    assert len(run.holders(run.devices[0])) == 2
    run.settle()
    assert run.bound() == []
    assert [key[2] for key in run.holders(run.devices[0])] == ["theirs-0"]

    first = TwoAllocators(1, 1, 1)
    first.show(len(first.watch))
    first.think()
    first.arrive(0)
    first.show(len(first.watch))
    first.other(0, first.devices[0])  # after ours was shown: it does not look, and is too late
    first.settle()
    assert first.bound() == ["p-0"]
