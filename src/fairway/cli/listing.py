"""The entries that `fairway get` lists: one per object or job, with its cells, labels and data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fairway.cli.output import age, amount_text, readable

if TYPE_CHECKING:
    from fairway.app.records import SandboxEvent
    from fairway.app.view.frame import Frame, JobRow, NodeUse

ROWS = ("Job", "Event")
"""What can be listed but is not a kind of object."""


class ListedCluster(Protocol):
    """The source of entries: the running sandbox, or objects that were read."""

    def frame(self) -> Frame: ...
    def jobs(self) -> list[JobRow]: ...
    def nodes(self) -> list[NodeUse]: ...
    def events(self) -> list[SandboxEvent]: ...
    def objects(self, kind: str) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class ListedObject:
    key: str
    """namespace/name, or a name alone."""
    data: Any
    """What JSON and YAML show."""
    cells: dict[str, str]
    """By column, in order."""
    wide: dict[str, str] = field(default_factory=dict)
    """Further columns of `-o wide`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    created: str = ""


def entries(client: ListedCluster, kind: str) -> list[ListedObject]:
    """All entries of a kind."""
    if kind == "Event":
        return list(_events(client))
    now = client.frame().now
    if kind == "Job":
        return list(_jobs(client, now))
    objects = client.objects(kind)
    if kind == "Queue":
        return list(_queues(client, objects, now))
    if kind == "Node":
        return list(_nodes(client.nodes(), objects, now))
    return [_reservation(thing, now) if kind == "Reservation" else _object(thing, now) for thing in objects]


def is_meant(key: str, name: str | None, namespace: str | None) -> bool:
    """Whether a key matches a name, with or without its namespace, and a namespace."""
    own_namespace, _, own_name = key.rpartition("/")
    if namespace is not None and own_namespace and own_namespace != namespace:
        return False
    return name is None or name in (key, own_name)


def _jobs(client: ListedCluster, now: str) -> Iterator[ListedObject]:
    labels = _job_labels(client)
    for job in client.jobs():
        pods = str(job.pods) if job.phase != "running" else f"{job.placed}/{job.pods}"
        cells = {"job": job.job, "queue": job.queue, "phase": job.phase, "pods": pods, "age": _age(job.created, now)}
        wide = {"started": _time(job.started or ""), "ended": _time(job.ended or ""), "message": job.message}
        why = {"reason or nodes": _why(job)}
        yield ListedObject(job.job, _plain(job), cells | why, wide, labels.get(job.job, {}), job.created)


def _why(job: JobRow) -> str:
    mark = ", starving" if job.starving else ""
    return f"{job.reason}{mark}" if job.phase == "waiting" else ", ".join(job.nodes)


def _job_labels(client: ListedCluster) -> dict[str, Mapping[str, str]]:
    """Labels of each job: those of its group, or of its lone pod."""
    things = [*client.objects("Pod"), *client.objects("PodGroup")]
    return {_key(thing): thing["metadata"].get("labels", {}) for thing in things}


def _queues(client: ListedCluster, objects: Sequence[dict[str, Any]], now: str) -> Iterator[ListedObject]:
    known = {thing["metadata"]["name"]: thing["metadata"] for thing in objects}
    for queue in client.frame().queues:
        meta = known.get(queue.name, {})
        created = meta.get("creationTimestamp", "")
        amounts = ", ".join(
            f"{_amount(name, queue.allocated[name], queue.reserved.get(name, '0'))} of {readable(name, due)} {name}"
            for name, due in queue.deserved.items()
            if (due, queue.allocated[name], queue.reserved.get(name, "0")) != ("0", "0", "0")
        )
        cells = {"queue": queue.name, "weight": str(queue.weight), "state": queue.state}
        cells |= {
            "share": f"{queue.dominant_share:.0%}",
            "age": _age(created, now),
            "allocated of deserved": amounts or "nothing",
        }
        asked = ", ".join(f"{readable(name, amount)} {name}" for name, amount in queue.requested.items())
        wide = {"parent": queue.parent, "requested": asked}
        yield ListedObject(queue.name, _plain(queue), cells, wide, meta.get("labels", {}), created)


def _amount(name: str, allocated: str, reserved: str) -> str:
    return amount_text(readable(name, allocated), readable(name, reserved))


def _nodes(nodes: Sequence[NodeUse], objects: Sequence[dict[str, Any]], now: str) -> Iterator[ListedObject]:
    known = {thing["metadata"]["name"]: thing["metadata"] for thing in objects}
    for node in nodes:
        meta = known.get(node.name, {})
        created, labels = meta.get("creationTimestamp", ""), meta.get("labels", {})
        use = ", ".join(
            f"{readable(name, used)}/{readable(name, node.allocatable[name])} {name}"
            for name, used in node.used.items()
        )
        cells = {"node": node.name, "state": node.state, "pods": str(node.pods), "age": _age(created, now)}
        yield ListedObject(
            node.name, _plain(node), cells | {"in use": use}, {"labels": _labels(labels)}, labels, created
        )


def _events(client: ListedCluster) -> Iterator[ListedObject]:
    from fairway.clock import format_rfc3339

    for event in client.events():
        at = format_rfc3339(event.at)
        cells = {"time": _time(at), "event": event.kind, "job": event.job, "what": event.text}
        yield ListedObject(event.job, _plain(event), cells, {}, {}, at)


def _object(thing: dict[str, Any], now: str) -> ListedObject:
    meta, spec, status = thing["metadata"], thing.get("spec", {}), thing.get("status", {})
    phase = status.get("phase", "Pending") if thing["kind"] == "Pod" else status.get("state", status.get("phase", ""))
    cells = {"namespace": meta["namespace"]} if "namespace" in meta else {}
    created = meta.get("creationTimestamp", "")
    cells |= {"name": meta["name"], "status": phase if isinstance(phase, str) else "", "age": _age(created, now)}
    if thing["kind"] == "Pod":
        cells["node"] = spec.get("nodeName", "")
    labels = meta.get("labels", {})
    return ListedObject(_key(thing), thing, cells, {"labels": _labels(labels)}, labels, created)


def _reservation(thing: dict[str, Any], now: str) -> ListedObject:
    meta, spec = thing["metadata"], thing["spec"]
    places = spec.get("places", [])
    states = [place["state"] for place in places]
    start = _time(spec.get("plannedStart", ""))
    soft = "" if spec.get("hard") or "plannedStart" not in spec else " (soft)"
    since = min((place["since"] for place in places if "since" in place), default="")
    created = meta.get("creationTimestamp") or since
    cells = {
        "namespace": meta["namespace"],
        "name": meta["name"],
        "reserved": str(states.count("reserved")),
        "allocated": str(states.count("allocated")),
        "nodes": ", ".join(sorted({place["node"] for place in places})),
        "planned start": f"{start}{soft}",
        "age": _age(created, now),
    }
    wide = {"since": _time(since), "job": f"{spec['jobRef']['kind']} {spec['jobRef']['name']}"}
    return ListedObject(_key(thing), thing, cells, wide, meta.get("labels", {}), created)


def _key(thing: dict[str, Any]) -> str:
    meta = thing["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))


def _plain(row: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(row)


def _age(created: str, now: str) -> str:
    from fairway.clock import parse_rfc3339

    return age(parse_rfc3339(now) - parse_rfc3339(created)) if created else ""


def _time(text: str) -> str:
    return text[11:19]
