"""The cost of jobs that cannot run: pods that fit nowhere, jobs that lack pods, pods whose claims are not bound."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.live.scene import Scene, group, growth, node, pod
from benchmarks.live.tenants import small_cycles
from benchmarks.policies import EVERY_ACTION, policy_for
from fairway.api.core import PersistentVolumeClaim, StorageClass
from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta
from fairway.api.pods import ClaimVolume, PersistentVolumeClaimSpec, Volume

NODES = 2_000
STEP, OVER_NONE = 1.2, 3.0


def _nodes() -> Iterator[ApiObject]:
    return (node(index) for index in range(NODES))


def every_action() -> None:
    """Tenants, and pods that fit nowhere, under a policy with all actions."""
    small_cycles(EVERY_ACTION)
    distinct(EVERY_ACTION)


def distinct(actions: str = "enqueue, allocate, backfill") -> None:
    """One new pod among n pods that fit nowhere, all with different requests."""
    policy = policy_for("binpack", actions)

    def scene(waiting: int) -> Scene:
        pods = (pod(f"large-{index}", f"{100_000 + index}m") for index in range(waiting))
        return Scene([*_nodes(), *pods], pod("new"), policy)

    growth("hopeless distinct pods", scene, [250, 500, 1_000, 2_000, 4_000], step=STEP, over_none=OVER_NONE)


def elastic() -> None:
    """One new pod while n started jobs wait for more pods that fit nowhere."""

    def jobs(count: int) -> Iterator[ApiObject]:
        for index in range(count):
            name = f"job-{index}"
            yield group(name, 1)
            yield pod(f"{name}-0", group=name, on=f"node-{index % NODES:05}")
            yield pod(f"{name}-1", "100", group=name)

    growth(
        "started elastic jobs",
        lambda count: Scene([*_nodes(), *jobs(count)], pod("new")),
        [1_000, 2_000, 4_000, 8_000],
        step=STEP,
        over_none=OVER_NONE,
    )


def claims() -> None:
    """One event of a claim, with n pending pods that use claims of their own, none of which can be bound yet."""

    def claim(name: str) -> PersistentVolumeClaim:
        spec = PersistentVolumeClaimSpec(storage_class_name="fast", access_modes=("ReadWriteOnce",))
        return PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="team"), spec=spec)

    def scene(waiting: int) -> Scene:
        users = [
            pod(
                f"user-{index}",
                volumes=(Volume(name="data", persistent_volume_claim=ClaimVolume(claim_name=f"data-{index}")),),
            )
            for index in range(waiting)
        ]
        return Scene([*_nodes(), StorageClass(metadata=ObjectMeta(name="fast")), *users], claim("data-0"))

    growth("one claim's event, pods that use claims", scene, [250, 500, 1_000, 2_000], step=STEP)
