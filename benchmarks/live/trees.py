"""The cost of queue trees: one new pod with queues in a binary tree, in long chains, and flat."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.live.scene import Scene, growth, node, pod, queue, report
from benchmarks.timing import medians, quiet
from fairway.api.kinds import ApiObject

NODES, RUNNING = 100, 2_000
DEPTH = 32


def flat(count: int) -> Iterator[ApiObject]:
    return (queue(f"q{index:04}") for index in range(count))


def binary(count: int) -> Iterator[ApiObject]:
    """Queue i is a child of queue i // 2."""
    return (queue(f"q{index:04}", f"q{(index - 1) // 2:04}" if index else "") for index in range(count))


def chains(count: int) -> Iterator[ApiObject]:
    return (queue(f"q{index:04}", f"q{index - 1:04}" if index % DEPTH else "") for index in range(count))


def _scene(queues: Iterator[ApiObject], leaves: list[str]) -> Scene:
    nodes = (node(index) for index in range(NODES))
    running = (
        pod(f"run-{index}", queue=leaves[index % len(leaves)], on=f"node-{index % NODES:05}")
        for index in range(RUNNING)
    )
    return Scene([*nodes, *queues, *running], pod("new", queue=leaves[0]))


def trees() -> None:
    """1,024 queues in a binary tree, and 256 in chains of 32, against as many flat ones."""
    for title, made, count, leaves in (
        ("1,024 queues in a binary tree", binary, 1_024, [f"q{index:04}" for index in range(512, 1_024)]),
        ("256 queues in chains of 32", chains, 256, [f"q{index:04}" for index in range(DEPTH - 1, 256, DEPTH)]),
    ):
        tree, level = _scene(made(count), leaves), _scene(flat(count), leaves)
        with quiet():
            ours, theirs = medians([tree.cycle, level.cycle], 15)
        report(f"{title} ({ours * 1e3:.2f} ms) against flat ({theirs * 1e3:.2f} ms)", ours / theirs, 3.0)
    growth(
        "flat queues",
        lambda count: _scene(flat(count), [f"q{index:04}" for index in range(count)]),
        [128, 256, 512, 1_024],
        step=1.1,
    )
