"""The slow, obvious twin of allocate: semantics 3 to 5 read literally, to hold the engine to.

    plan_bindings(objects, policy) -> [(pod, node), ...] in the order decided

One task at a time, plain loops over nodes and jobs, every sum made anew when it is needed. No columns, no kept
answers, no heaps, and nothing of `state`: it starts from the objects. It knows what a policy of enqueue, allocate and
backfill with our plugins for order, sharing, predicates and scores does; not devices, volumes, holds and evictions.
"""

from fairway.scheduler.reference.allocation import plan_bindings

__all__ = ["plan_bindings"]
