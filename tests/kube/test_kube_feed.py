"""What reflectors deliver to the loop: lists as differences, PodGroups of several APIs, completeness (spec K3)."""

from __future__ import annotations

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.kinds import ApiObject, Kind
from fairway.api.scheduling import PodGroup, PodGroupSpec
from fairway.drive.store import ObjectStore
from fairway.kube.kinds import SCHEDULER_KINDS
from fairway.kube.reading.feed import Feed
from fairway.kube.reading.reflector import Delivery, Gone
from support.objects import node, pod

NODE, POD = (next(kind for kind in SCHEDULER_KINDS if kind.name == name) for name in ("Node", "Pod"))
VOLCANO, KUBERNETES, PLUGINS = (kind for kind in SCHEDULER_KINDS if kind.name == "PodGroup")


def seen(thing: ApiObject, version: int) -> ApiObject:
    made: ApiObject = replace(
        thing, metadata=replace(thing.metadata, resource_version=str(version), uid=f"u-{thing.metadata.name}")
    )
    return made


def group(name: str, members: int, version: int) -> ApiObject:
    found = PodGroup(spec=PodGroupSpec(min_member=members))
    meta = replace(found.metadata, name=name, namespace="a", uid=f"{name}-{members}", resource_version=str(version))
    return replace(found, metadata=meta)


class Told(ObjectStore):
    """A store that is fed, and what it makes of it."""

    def names(self) -> set[str]:
        return {thing.metadata.name for thing in self.objects()}

    def members(self, name: str) -> int | None:
        found = self.get(("PodGroup", "a", name))
        return found.spec.min_member if isinstance(found, PodGroup) else None

    def refused(self, change: object, why: str = "") -> None:
        """None is sent here."""


def test_K1_a_second_list_is_a_difference() -> None:
    store = Told()
    feed = Feed([NODE], store, store)
    feed.take(Delivery(NODE, "v1", [seen(node("n1"), 1), seen(node("n2"), 2)], is_list=True))
    store.drain()
    feed.take(Delivery(NODE, "v1", [seen(node("n2"), 2), seen(node("n3"), 5)], is_list=True))
    assert store.names() == {"n2", "n3"}
    assert [type(event).__name__ for event in store.drain().events] == ["Upserted", "Deleted"]


def test_K6_a_list_that_says_nothing_new_makes_no_event() -> None:
    store = Told()
    feed = Feed([NODE], store, store)
    things = [seen(node("n1"), 1), seen(node("n2"), 2)]
    feed.take(Delivery(NODE, "v1", things, is_list=True))
    store.drain()
    feed.take(Delivery(NODE, "v1", [seen(node("n1"), 9), seen(node("n2"), 2)], is_list=True))
    assert store.drain().events == []


def test_events_come_in_their_order_and_a_deletion_may_have_a_key_only() -> None:
    store = Told()
    feed = Feed([POD], store, store)
    one = seen(pod("p"), 1)
    feed.take(Delivery(POD, "v1", [one, Gone(seen(pod("p"), 2)), seen(pod("q"), 3)]))
    assert store.names() == {"q"}
    feed.take(Delivery(POD, "v1", [Gone(("Pod", "default", "q")), Gone(("Pod", "default", "unknown"))]))
    assert store.names() == set()


def part(kind: Kind, *items: ApiObject) -> Delivery:
    return Delivery(kind, kind.api_versions[0], items, is_part=True)


def test_K3_what_has_come_of_the_last_list_counts_before_its_end_and_completes_nothing() -> None:
    store, done = Told(), list[bool]()
    feed = Feed([NODE, POD], store, store, lambda: done.append(True))
    feed.take(part(POD, seen(pod("early"), 1)))
    assert store.names() == set()
    feed.take(Delivery(NODE, "v1", [seen(node("n1"), 1)], is_list=True))
    feed.take(part(POD, seen(pod("p"), 2), seen(pod("went"), 3)))
    assert store.names() == {"n1", "p", "went"}
    assert not done
    feed.take(Delivery(POD, "v1", [seen(pod("early"), 1), seen(pod("p"), 2)], is_list=True))
    assert store.names() == {"n1", "early", "p"}
    assert done == [True]


def test_K1_a_part_of_a_later_list_waits_for_the_whole() -> None:
    store = Told()
    feed = Feed([NODE, POD], store, store)
    for kind in (NODE, POD):
        feed.take(Delivery(kind, "v1", [], is_list=True))
    feed.take(part(POD, seen(pod("p"), 2)))
    assert store.names() == set()


def test_K3_all_kinds_are_awaited_and_those_that_are_not_installed_are_not() -> None:
    store, done = Told(), list[bool]()
    feed = Feed([NODE, POD, VOLCANO], store, store, lambda: done.append(True))
    assert feed.awaited == ["Node (v1)", "Pod (v1)", "PodGroup (scheduling.volcano.sh/v1beta1)"]
    feed.take(Delivery(NODE, "v1", [], is_list=True))
    feed.take(Delivery(POD, "v1", [seen(pod("p"), 1)]))
    feed.take(Delivery(VOLCANO, "", [], is_list=True))
    assert feed.awaited == ["Pod (v1)"]
    assert not done
    for _ in range(2):
        feed.take(Delivery(POD, "v1", [], is_list=True))
    assert done == [True]


def deliver(feed: Feed, kind: Kind, *items: ApiObject | Gone, is_list: bool = False) -> None:
    feed.take(Delivery(kind, kind.api_versions[0], items, is_list=is_list))


def test_a_list_of_one_api_leaves_the_groups_of_the_others() -> None:
    store = Told()
    feed = Feed(SCHEDULER_KINDS, store, store)
    deliver(feed, VOLCANO, group("v", 1, 1), is_list=True)
    deliver(feed, KUBERNETES, group("k", 2, 2), is_list=True)
    deliver(feed, PLUGINS, is_list=True)
    assert store.names() == {"v", "k"}
    assert feed.group_versions[kinds.key(group("k", 2, 2))] == "scheduling.k8s.io/v1beta1"
    deliver(feed, KUBERNETES, is_list=True)
    assert store.names() == {"v"}


def test_of_two_groups_of_one_name_the_first_api_counts_and_the_other_after_it() -> None:
    store = Told()
    feed = Feed(SCHEDULER_KINDS, store, store)
    deliver(feed, PLUGINS, group("g", 3, 1))
    assert store.members("g") == 3
    deliver(feed, VOLCANO, group("g", 1, 2))
    assert store.members("g") == 1
    deliver(feed, PLUGINS, group("g", 4, 3))
    assert store.members("g") == 1
    deliver(feed, VOLCANO, Gone(group("g", 1, 9)))
    assert store.members("g") == 4
    deliver(feed, PLUGINS, Gone(("PodGroup", "a", "g")))
    assert store.members("g") is None
    assert feed.group_versions == {}
