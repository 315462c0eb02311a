"""`fairway get`: what is in the sandbox that runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from fairway.cli.output import amount_text, console, output_option, print_structured, table
from fairway.cli.sandbox_options import sandbox_option

if TYPE_CHECKING:
    from rich.table import Table

    from fairway.app.records import SandboxEvent
    from fairway.app.sandbox.client import Client
    from fairway.app.view.frame import NodeUse
    from fairway.app.view.jobs import JobRow
    from fairway.scheduler.plan import QueueStanding

EVENTS = 30
"""Events that are shown; -o json has all that are kept."""


@click.command(
    epilog="""\b
Examples:
  fairway get                              jobs: waiting, running and finished
  fairway get queues -o yaml
  fairway get pods -n vision
  fairway get podgroup language/pretrain -o yaml
  fairway get reservations                 nodes that are kept for starving jobs
  fairway get events"""
)
@click.argument("kind", default="jobs")
@click.argument("name", required=False, metavar="[[NAMESPACE/]NAME]")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Only what is in this namespace.")
@sandbox_option
@output_option
def command(kind: str, name: str | None, namespace: str | None, sandbox: str | None, output: str) -> None:
    """List jobs, queues, nodes, events, or objects of a KIND, of the sandbox."""
    from fairway.app.sandbox.client import Client

    client = Client.find(sandbox)
    rows, made = _listed(client, kind.lower(), name, namespace)
    if output == "table":
        out = console()
        out.print(made) if rows else out.print("None.")
    else:
        print_structured({"items": rows}, output)


def _listed(client: Client, kind: str, name: str | None, namespace: str | None) -> tuple[Sequence[Any], Table]:
    """The rows that are meant, and the table of them."""
    if kind in ("job", "jobs"):
        jobs = [row for row in client.jobs() if _is_meant(row.job, name, namespace)]
        return jobs, _jobs(jobs)
    if kind in ("queue", "queues") and name is None:
        queues = client.frame().queues
        return queues, _queues(queues)
    if kind in ("node", "nodes") and name is None:
        nodes = client.nodes()
        return nodes, _nodes(nodes)
    if kind in ("event", "events"):
        events = [row for row in client.events() if name is None or _is_meant(row.job, name, namespace)]
        return events, _events(events[-EVENTS:])
    parts = [] if name is None else name.split("/", 1)
    if len(parts) == 1 and namespace is not None:
        parts = [namespace, *parts]
    objects = [
        thing
        for thing in client.objects(kind, *parts)
        if namespace is None or thing["metadata"].get("namespace", namespace) == namespace
    ]
    if objects and objects[0]["kind"] == "Reservation":
        return objects, _reservations(objects)
    return objects, _objects(objects)


def _is_meant(key: str, name: str | None, namespace: str | None) -> bool:
    own_namespace, _, own_name = key.partition("/")
    if namespace is not None and own_namespace != namespace:
        return False
    return name is None or name in (key, own_name)


def _jobs(jobs: Sequence[JobRow]) -> Table:
    rows = table("job", "queue", "phase", "pods", "since", "why, or where", numbers=("pods",))
    for job in jobs:
        pods = str(job.pods) if job.phase != "running" else f"{job.placed}/{job.pods}"
        since = {"running": job.started, "finished": job.ended}.get(job.phase) or ""
        mark = ", starving" if job.starving else ""
        why = f"{job.reason}{mark}" if job.phase == "waiting" else ", ".join(job.nodes)
        rows.add_row(job.job, job.queue, job.phase, pods, _time(since), why)
    return rows


def _queues(queues: Sequence[QueueStanding]) -> Table:
    rows = table("queue", "weight", "state", "share", "allocated of deserved", numbers=("weight", "share"))
    for queue in queues:
        amounts = ", ".join(
            f"{amount_text(queue.allocated[name], queue.reserved.get(name, '0'))}/{due} {name}"
            for name, due in queue.deserved.items()
        )
        rows.add_row(queue.name, str(queue.weight), queue.state, f"{queue.dominant_share:.0%}", amounts)
    return rows


def _nodes(nodes: Sequence[NodeUse]) -> Table:
    rows = table("node", "state", "pods", "in use", numbers=("pods",))
    for node in nodes:
        use = ", ".join(f"{used}/{node.allocatable[name]} {name}" for name, used in node.used.items())
        rows.add_row(node.name, node.state, str(node.pods), use)
    return rows


def _events(events: Sequence[SandboxEvent]) -> Table:
    from fairway.clock import format_rfc3339

    rows = table("time", "event", "job", "what")
    for event in events:
        rows.add_row(_time(format_rfc3339(event.at)), event.kind, event.job, event.text)
    return rows


def _objects(objects: Sequence[dict[str, Any]]) -> Table:
    rows = table("namespace", "name", "status", "node")
    for thing in objects:
        meta, spec, status = thing["metadata"], thing.get("spec", {}), thing.get("status", {})
        phase = status.get("phase", "Pending") if thing["kind"] == "Pod" else status.get("state", "")
        rows.add_row(meta.get("namespace", ""), meta["name"], phase, spec.get("nodeName", ""))
    return rows


def _reservations(objects: Sequence[dict[str, Any]]) -> Table:
    rows = table("namespace", "name", "job", "reserved", "allocated", "nodes", "planned start", "since")
    for thing in objects:
        meta, spec = thing["metadata"], thing["spec"]
        places = spec.get("places", [])
        states = [place["state"] for place in places]
        nodes = ", ".join(sorted({place["node"] for place in places}))
        start = _time(spec.get("plannedStart", "")) + (
            "" if spec.get("hard") or "plannedStart" not in spec else " (soft)"
        )
        since = min((place["since"] for place in places if "since" in place), default="")
        job = f"{spec['jobRef']['kind']} {spec['jobRef']['name']}"
        counts = [str(states.count(state)) for state in ("reserved", "allocated")]
        rows.add_row(meta["namespace"], meta["name"], job, *counts, nodes, start, _time(since))
    return rows


def _time(text: str) -> str:
    return text[11:19]
