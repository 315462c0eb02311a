"""Random clusters with a little of everything, told to two states at once: one keeps derived values, one does not.

A run is made from one seed. What it consists of is plain random data, not drawn from hypothesis, for most of the time
would go into drawing.
"""

import json
from random import Random
from typing import Any

from msgspec.structs import replace

from fairway.api.core import Node
from fairway.api.kinds import ApiObject, key
from fairway.api.pods import Pod, PodStatus
from fairway.api.policy import Policy, parse_policy
from fairway.api.scheduling import Queue
from fairway.clock import SECOND, to_datetime
from fairway.drive.change import bound
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.paranoid import check
from fairway.scheduler.plan import Plan
from fairway.scheduler.plugins.installed import default_registry
from fairway.scheduler.reservations.objects import reservation_objects
from fairway.state.cluster import ClusterState, Deleted, Event, Upserted
from support import objects as make
from support.claims import claiming, device_class, exactly, template
from support.contended import full_cluster, seldom, sometimes
from support.contention import NOMINATED_SINCE, annotated
from support.devices import DRIVER, asking, device_node, gpu, kind_class, memory_class, published, resource_slice

LEVELS = ["zone", "rack"]
EVENTS = ("pod ends", "pod ends", "pod", "pod", "gang", "node", "node goes", "queue", "class", "slice", "run time", "")
RUNTIME = "fairway.dev/expected-runtime"


def policy(random: Random) -> Policy:
    """Every action in every mode, in an order that makes sense."""
    limits = {"maxEvictionsPerCycle": random.randint(1, 3)} if seldom(random) else {}
    evicting = random.choice(((), (), ("preempt",), ("reclaim",), ("reclaim", "preempt")))
    listed: list[dict[str, Any]] = [{"name": name, "arguments": limits} for name in evicting]
    blocked = {"blocked": "wait"} if seldom(random) else {}
    allocate = {"name": "allocate", "arguments": blocked}
    listed = [*listed, allocate] if sometimes(random) else [allocate, *listed]
    if random.random() < 0.5:
        reserve: dict[str, Any] = {
            "starvingJobTimeThreshold": random.randint(0, 9),
            "reservedNodePercent": 60,
            "onlyIfOvertaken": random.random() < 0.3,
        }
        listed.insert(0, {"name": "reserve", "arguments": reserve})
    mode = random.choice(("besteffort", "besteffort", "easy", "conservative"))
    backfill = {"mode": mode, "overrun": random.choice(("evict", "allow"))}
    actions = [{"name": "enqueue"}, *listed, {"name": "backfill", "arguments": backfill}]
    names = ["priority", "gang", "conformance", "drf", "predicates", random.choice(("proportion", "capacity"))]
    names += [random.choice(("nodeorder", "binpack"))] + (["devices"] if random.random() < 0.9 else [])
    tiers = [{"plugins": [{"name": name} for name in names]}]
    text = json.dumps({"actions": actions, "topology": {"levels": LEVELS}, "tiers": tiers})
    return parse_policy(text, "policy", default_registry().catalog)


def cluster(random: Random) -> list[Any]:
    """A cluster that is full or nearly, with devices, topologies and run times in some."""
    rest, jobs = full_cluster(random, plain=random.random() < 0.7)
    things = [_labelled(random, thing) for thing in rest]
    things += [_timed(random, thing) for job in jobs for thing in job]
    if random.random() < 0.4:
        things += devices(random)
    if random.random() < 0.3:
        names = [thing.metadata.name for thing in things if isinstance(thing, Node)]
        things += [hyper_node(f"h{tier}{part}", tier, names[part::2]) for tier in (1, 2) for part in range(3 - tier)]
        things += [thing for i in range(2) for thing in gang(random, f"net{i}")]
    return things


def _labelled(random: Random, thing: Any) -> Any:
    if isinstance(thing, Queue) and thing.metadata.name != "q0" and sometimes(random):
        return replace(thing, spec=replace(thing.spec, parent="q0"))
    if not isinstance(thing, Node):
        return thing
    labels = {**thing.metadata.labels, "rack": random.choice("12")}
    return replace(thing, metadata=replace(thing.metadata, labels=labels))


def _timed(random: Random, thing: Any) -> Any:
    if not isinstance(thing, Pod) or random.random() < 0.5:
        return thing
    return annotated(thing, expected_runtime=str(86_400 + random.randint(-5, 9)))


def hyper_node(name: str, tier: int, nodes: list[str]) -> ApiObject:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
    return make.made("HyperNode", name, spec={"tier": tier, "members": members})


def gang(random: Random, name: str) -> list[ApiObject]:
    """A gang that asks for one domain, by labels or by HyperNodes."""
    notes: dict[str, str] = {}
    if random.random() < 0.6:
        strength = random.choice(("required", "preferred"))
        notes = {f"kueue.x-k8s.io/podset-{strength}-topology": random.choice(LEVELS)}
    members = random.randint(2, 3)
    group = make.group(name, minimum=random.randint(1, members), created=random.randint(0, 9), annotations=notes)
    if not notes:
        mode = random.choice(("hard", "soft"))
        group = make.made(
            "PodGroup",
            name,
            "default",
            spec={
                "minMember": members,
                "queue": "q0",
                "networkTopology": {"mode": mode, "highestTierAllowed": random.randint(1, 2)},
            },
        )
    cpu, priority = random.randint(1, 2), random.randint(0, 9)
    return [group, *(make.pod(f"{name}-{i}", group=name, cpu=cpu, spec={"priority": priority}) for i in range(members))]


def devices(random: Random) -> list[ApiObject]:
    """Nodes with devices, by annotation and published by a driver, and pods that ask for them in every way."""
    classes = [kind_class("any", "nvidia-gpu"), memory_class("high", "16G"), device_class("dc", _expression(random))]
    things: list[ApiObject] = [
        *classes,
        template("t0", exactly(device_class="dc")),
        template("t1", exactly("r", "any")),
    ]
    for i in range(random.randint(1, 3)):
        name = f"g{i}"
        if random.random() < 0.5:
            things.append(device_node(name, *(_gpu(random, f"d{n}") for n in range(random.randint(1, 3))), cpu=9))
        else:
            things += [device_node(name, cpu=9), _slice(random, name)]
    for i in range(random.randint(2, 6)):
        things.append(device_pod(random, f"dev{i}"))
    return things


def _gpu(random: Random, name: str) -> dict[str, Any]:
    return gpu(name, random.randint(1, 2), memory=random.choice(("8G", "16G", "32G")))


def _slice(random: Random, node: str) -> ApiObject:
    found = [
        published(
            f"d{n}",
            attributes={"kind": {"string": "nvidia-gpu"}, "tier": {"int": random.randint(0, 2)}},
            capacity={"memory": {"value": f"{random.choice((8, 16, 32))}G"}},
        )
        for n in range(random.randint(1, 3))
    ]
    return resource_slice(f"s-{node}", node, *found)


def _expression(random: Random) -> str:
    return f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].tier >= {random.randint(0, 2)}'


def device_pod(random: Random, name: str) -> ApiObject:
    spec: dict[str, Any] = {"spec": {"priority": random.randint(0, 9)}, "created": random.randint(0, 9)}
    if random.random() < 0.4:
        return claiming(name, template=random.choice(("t0", "t1")), **spec)
    wish = random.choice(({"any": 1}, {"high": 1}, {"any": "500m"}, {"any": 2}))
    return asking(name, classes=wish, **spec)


class Twins:
    """Two states that are told the same: `kept` keeps everything, `bare` keeps what a setting leaves."""

    def __init__(self, random: Random, setting: str) -> None:
        self.random = random
        self.policy = policy(random)
        things = cluster(random)
        self.objects = {key(thing): thing for thing in things}
        self.kept, self.bare = ClusterState(), ClusterState()
        self.bare.derived.switch(setting)
        for state in (self.kept, self.bare):
            state.upsert(things)
        self.now = make.NOW
        self.made = 0

    def cycle(self) -> Plan:
        """Decide with both and compare; mostly without reasons, as drivers do."""
        run = decide_and_explain if self.random.random() < 0.4 else decide
        plan, slow = (run(state, self.policy, self.now) for state in (self.kept, self.bare))
        for part in slow.__struct_fields__:
            assert getattr(plan, part) == getattr(slow, part), part
        return plan

    def check(self) -> None:
        check(self.kept, self.policy, self.now)

    def tell(self, event: Event) -> None:
        if isinstance(event, Upserted):
            self.objects[key(event.object)] = event.object
        else:
            self.objects.pop(key(event.object), None)
        for state in (self.kept, self.bare):
            state.apply(event)

    def of(self, kind: type) -> list[Any]:
        return [thing for thing in self.objects.values() if isinstance(thing, kind)]

    def carry_out(self, plan: Plan) -> None:
        pods = {f"{pod.metadata.namespace}/{pod.metadata.name}": pod for pod in self.of(Pod)}
        wanted = reservation_objects(plan.reservations, plan.overruns)
        for thing in [each for name, each in self.objects.items() if name[0] == "Reservation"]:
            if (thing.metadata.namespace, thing.metadata.name) not in wanted:
                self.tell(Deleted(thing))
        for thing in wanted.values():
            if self.objects.get(key(thing)) != thing:
                self.tell(Upserted(thing))
        nominated = {entry.pod: entry for entry in plan.nominations}
        for name, pod in pods.items():
            entry = nominated.get(name)
            node = "" if entry is None else entry.node
            if pod.status.nominated_node_name != node:
                notes = {note: text for note, text in pod.metadata.annotations.items() if note != NOMINATED_SINCE}
                if entry is not None:
                    notes[NOMINATED_SINCE] = entry.since
                meta = replace(pod.metadata, annotations=notes)
                pods[name] = replace(pod, metadata=meta, status=replace(pod.status, nominated_node_name=node))
                self.tell(Upserted(pods[name]))
        for eviction in plan.evictions:
            pod = pods[eviction.pod]
            if self.random.random() < 0.5:
                self.tell(Upserted(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self._time()))))
            else:
                self.tell(Deleted(pod))
                self.tell(Upserted(replace(pod, spec=replace(pod.spec, node_name=""), status=PodStatus())))
        for binding in plan.bindings:
            self.tell(Upserted(bound(pods[binding.pod], binding.node, self.now, binding.annotations)))

    def happen(self) -> None:
        """A second passes or some, and something changes."""
        random = self.random
        self.now += random.choice((0, 1, 1, 3)) * SECOND
        self.made += 1
        pods, nodes = self.of(Pod), self.of(Node)
        what = random.choice(EVENTS)
        if what == "pod ends" and pods:
            self.tell(Deleted(random.choice(pods)))
        elif what == "pod":
            for _ in range(random.choice((1, 1, 4))):
                self.made += 1
                cpu, queue = random.choice((1, 2, 4, 40)), random.choice(("q0", "q1", "default"))
                notes = {RUNTIME: str(random.randint(1, 9))} if random.random() < 0.5 else {}
                spec = {"priority": random.randint(0, 9)}
                created = random.choice((0, 86_395, 86_400))
                name = f"new-{self.made}"
                self.tell(Upserted(make.pod(name, cpu=cpu, queue=queue, created=created, spec=spec, annotations=notes)))
        elif what == "gang":
            for thing in gang(random, f"gang-{self.made}"):
                self.tell(Upserted(thing))
        elif what == "node":
            name = random.choice([*(node.metadata.name for node in nodes), f"new-{self.made}"])
            labels = {"zone": random.choice("xy"), "rack": random.choice("12")}
            more = {"unschedulable": True} if seldom(random) else {}
            self.tell(Upserted(make.node(name, cpu=random.randint(2, 9), pods=20, memory="9Gi", labels=labels, **more)))
        elif what == "node goes" and len(nodes) > 1 and seldom(random):
            self.tell(Deleted(random.choice(nodes)))
        elif what == "queue":
            limits: dict[str, Any] = {"capability": {"cpu": random.randint(3, 9)}} if sometimes(random) else {}
            state = "Closed" if seldom(random) else ""
            self.tell(Upserted(make.queue(random.choice(("q0", "q1")), random.randint(1, 3), state=state, **limits)))
        elif what == "class":
            self.tell(Upserted(device_class("dc", _expression(random))))
            self.tell(Upserted(memory_class("high", random.choice(("8G", "16G")))))
        elif what == "slice":
            self.tell(Upserted(_slice(random, f"g{random.randint(0, 2)}")))
            self.tell(Upserted(device_pod(random, f"dev-{self.made}")))
        elif what == "run time" and pods:
            pod = random.choice(pods)
            notes = {**pod.metadata.annotations, RUNTIME: str(86_400 + random.randint(-5, 9))}
            self.tell(Upserted(replace(pod, metadata=replace(pod.metadata, annotations=notes))))

    def _time(self) -> Any:
        return to_datetime(self.now)
