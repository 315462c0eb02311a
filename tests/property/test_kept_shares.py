"""What queues hold, request and deserve is kept from cycle to cycle: it is always what a new start would give."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.meta import ObjectMeta
from fairway.api.scheduling import Queue, QueueGuarantee, QueueSpec
from fairway.resources.columns import Axis
from fairway.scheduler.framework.accounts import OpenAccounts
from fairway.scheduler.plugins.share_tree import Division, KeptShares
from fairway.state.queues import QueueInfo, QueueTotals, QueueTree
from oracles.shares import Share, divide
from support.effort import examples

NAMES = ("a", "b", "c", "d", "e", "default")
CPU, MEMORY, PODS = range(3)
MUCH = 1 << 100
amounts = st.integers(0, 12)


def described(data: st.DataObject, name: str) -> Queue:
    def limits() -> dict[str, str]:
        return {name: str(data.draw(amounts)) for name in ("cpu", "memory") if data.draw(st.booleans())}

    spec = QueueSpec(
        weight=data.draw(st.integers(1, 4)),
        capability=limits(),
        guarantee=QueueGuarantee(resource=limits()),
        parent=data.draw(st.sampled_from(["", "", *(other for other in NAMES[:4] if other != name)])),
        state=data.draw(st.sampled_from(["", "", "Closed"])),
    )
    return Queue(metadata=ObjectMeta(name=name), spec=spec)


def change(tree: QueueTree, axis: Axis, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    match data.draw(st.sampled_from(["hold", "hold", "request", "request", "describe", "delete"])):
        case "hold":
            tree.get(name).charge("ns", ((CPU, data.draw(amounts) * 1000), (PODS, 1)), 1)
        case "request":
            tree.get(name).request(((CPU, data.draw(amounts) * 1000), (MEMORY, data.draw(amounts))), 1)
        case "describe":
            tree.upsert(described(data, name), axis)
        case _:
            tree.delete(name)


class Slow:
    """The definition: every sum and share made anew, with fractions."""

    def __init__(self, tree: QueueTree, own: dict[str, tuple[list[int], list[int]]]) -> None:
        self.tree = tree
        self.own = own

    def line(self, name: str) -> list[QueueInfo]:
        return self.tree.ancestors(name)

    def parent(self, name: str) -> str:
        line = self.line(name)
        return line[1].name if len(line) > 1 and not self.tree.in_circle(name) else ""

    def children(self, name: str) -> list[str]:
        return sorted(queue.name for queue in self.tree if self.parent(queue.name) == name)

    def sums(self, name: str, which: str, row: int) -> int:
        below = [queue.name for queue in self.tree if name in {above.name for above in self.line(queue.name)}]
        return sum((*getattr(self.tree[one], which), 0, 0, 0)[row] for one in below)

    def guaranteed(self, name: str, row: int) -> int:
        return max(self.tree[name].guarantee.get(row, 0), sum(self.guaranteed(c, row) for c in self.children(name)))

    def request(self, name: str, row: int) -> int:
        queue, children = self.tree[name], self.children(name)
        if not children:
            held, requested = self.own.get(name) or (
                [self.sums(name, "allocated", r) for r in range(3)],
                [self.sums(name, "requested", r) for r in range(3)],
            )
            return held[row] + (requested[row] if queue.open and queue.exists else 0)
        wants = [max(self.guaranteed(child, row), self.request(child, row)) for child in children]
        limits = [self.tree[child].capability.get(row, MUCH) for child in children]
        return sum(map(min, wants, limits)) + (*queue.allocated, 0, 0, 0)[row]

    def shares(self, total: int, row: int, above: str = "") -> dict[str, int]:
        claims = []
        for name in self.children(above):
            most = self.tree[name].capability.get(row, MUCH)
            low = min(most, self.guaranteed(name, row))
            claims.append(Share(name, self.tree[name].weight, low, max(low, min(most, total, self.request(name, row)))))
        found = divide(total, claims)
        for name, amount in list(found.items()):
            found |= self.shares(amount, row, name)
        return found


@settings(max_examples=examples(60))
@given(data=st.data())
def test_kept_shares_are_those_of_a_new_start(data: st.DataObject) -> None:
    tree, axis = QueueTree(), Axis(("cpu", "memory", "pods"))
    totals, kept = QueueTotals(tree, axis), KeptShares()
    cluster = [20_000, 20, 100]
    for _ in range(data.draw(st.integers(1, 8))):
        for _ in range(data.draw(st.integers(0, 3))):
            change(tree, axis, data)
        if data.draw(st.booleans()):
            cluster = [1000 * data.draw(st.integers(0, 40)), data.draw(st.integers(0, 40)), 100]
        totals.sync()
        kept.read(totals, 3)
        accounts = OpenAccounts(totals, 3, (CPU, MEMORY))
        for name in data.draw(st.lists(st.sampled_from(sorted(totals.totals)), max_size=2)):
            more = ((CPU, data.draw(amounts) * 1000),)
            accounts[name].charge(more, 1)
        division = Division(kept.tree, accounts, cluster)
        own = {
            name: (account.allocated.copy(), account.requested.copy()) for name, account in accounts.opened().items()
        }
        if data.draw(st.booleans()):  # another cycle on the same state, between two looks at this one
            assert division["default"]
            Division(kept.tree, OpenAccounts(totals, 3, (CPU, MEMORY)), [1000, 1, 1])["default"]
        slow = Slow(tree, own)
        for row in (CPU, MEMORY):
            expected = slow.shares(cluster[row], row)
            assert {name: division[name][row] for name in division} == expected


@settings(max_examples=examples(40))
@given(data=st.data())
def test_kept_totals_are_those_of_a_new_start(data: st.DataObject) -> None:
    tree, axis = QueueTree(), Axis(("cpu", "memory", "pods"))
    kept = QueueTotals(tree, axis)
    for _ in range(data.draw(st.integers(1, 8))):
        for _ in range(data.draw(st.integers(0, 3))):
            change(tree, axis, data)
        kept.sync()
        slow = Slow(tree, {})
        found: dict[str, Any] = {name: (total.allocated, total.requested) for name, total in kept.totals.items()}
        assert found == {
            queue.name: tuple(
                [slow.sums(queue.name, which, row) for row in range(3)] for which in ("allocated", "requested")
            )
            for queue in tree
        }
        for name, total in kept.totals.items():
            assert (total.parent, list(total.children)) == (slow.parent(name), slow.children(name))
