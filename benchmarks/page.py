"""What the page costs: a page of 50,000 jobs, a map of 10,000 nodes, a picture, and 100 viewers beside a scheduler.

    python -m benchmarks.page

The cost of the scheduler itself is that of handing over: the same cycles with and without a feed whose process has 100
clients of the stream of events. A ratio of 1.05 is 5 % more.
"""

from __future__ import annotations

import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from fairway.api.core import Node
from fairway.api.kinds import ApiObject
from fairway.api.manifests import parse_object
from fairway.api.policy import default_policy
from fairway.app.live.viewer_feed import FeedHead, ViewerFeed
from fairway.app.view.job_table import JobQuery
from fairway.app.view.mirror import Mirror, report_of
from fairway.app.view.picture import Picture, picture_of
from fairway.app.view.scheduler_page import NO_FACTS
from fairway.clock import SECOND, Micros
from fairway.drive.scheduler_loop import Cycle
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import ClusterState, Deleted, Event, Upserted
from fairway.web.live_page import LivePageSettings

NOW: Micros = 1_767_225_600 * SECOND
TOKEN = "a-token-for-the-benchmark-of-the-page"
ROUNDS = 30
CHANGED = 100
"""Pods that start in a cycle, and as many that end."""
LASTING = 5
"""Cycles that a pod runs for."""
CLIENTS = 100
TURNS = 8


def a_node(number: int) -> ApiObject:
    amounts = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"}
    return parse_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number:05}"},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
    )


def a_pod(number: int, node: str = "", cpu: str = "1", version: int = 0) -> ApiObject:
    return parse_object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"pod-{number:06}",
                "namespace": f"team-{number % 50}",
                "uid": f"{number}",
                "resourceVersion": str(version + 1),
                "creationTimestamp": "2025-12-31T23:00:00Z",
                "labels": {"app": f"app-{number % 20}"},
                "annotations": {"scheduling.volcano.sh/queue-name": f"queue-{number % 20}"},
            },
            "spec": {
                "schedulerName": "fairway",
                "nodeName": node,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
            },
            "status": {"phase": "Running" if node else "Pending"},
        }
    )


def a_queue(number: int) -> ApiObject:
    return parse_object(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": f"queue-{number}"},
            "spec": {"weight": 1},
        }
    )


def world(nodes: int, running: int, waiting: int) -> list[ApiObject]:
    things = [a_node(number) for number in range(nodes)] + [a_queue(number) for number in range(20)]
    names = [thing.metadata.name for thing in things if isinstance(thing, Node)]
    things += [a_pod(number, names[number % nodes]) for number in range(running)]
    return things + [a_pod(running + number, cpu="999") for number in range(waiting)]


def timed(call: Callable[[], object], times: int = 5) -> float:
    """Milliseconds, the median."""
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        spent.append((time.perf_counter() - begin) * 1000)
    return statistics.median(spent)


def measure_views() -> None:
    policy = default_policy(default_registry().catalog)
    mirror = Mirror(policy, NOW)
    mirror.apply([Upserted(thing) for thing in world(10_000, 30_000, 20_000)], NOW)
    print(f"picture of 10,000 nodes and 50,000 jobs: {timed(lambda: picture_of(mirror), 3):.0f} ms")
    picture = picture_of(mirror)
    first = JobQuery(queue=("queue-1", "queue-2"), state=("waiting",), sort="-created", group="namespace", facets=True)
    begin = time.perf_counter()
    msgspec.json.encode(picture.jobs.page(first))
    print(f"first page of a filter and an order: {(time.perf_counter() - begin) * 1000:.1f} ms")
    for name, query in (
        ("100 rows as they are", JobQuery()),
        ("filter, sort, group and facets", first),
        ("a search", JobQuery(search="pod-04", sort="job")),
        ("the last rows", JobQuery(sort="-pods", offset=49_900)),
    ):
        print(f"jobs, {name}: {timed(partial(_page, picture, query)):.1f} ms")
    print(f"nodes, all columns as JSON: {timed(lambda: msgspec.json.encode(picture.nodes)):.1f} ms")


def _page(picture: Picture, query: JobQuery) -> bytes:
    return msgspec.json.encode(picture.jobs.page(query))


@contextmanager
def served_page(feed: str) -> Iterator[None]:
    """The page's process with 100 clients that read; the socket is there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "fairway.web.live_page"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    settings = LivePageSettings("127.0.0.1", port, feed, token=TOKEN)
    process.stdin.write(msgspec.json.encode(settings) + b"\n")
    process.stdin.flush()
    viewers = subprocess.Popen([sys.executable, "-m", "benchmarks.page", str(port)], stdout=subprocess.PIPE)
    assert viewers.stdout is not None
    viewers.stdout.readline()
    try:
        yield
    finally:
        for one in (viewers, process):
            one.kill()
            one.wait()


def _connect(port: int) -> list[socket.socket]:
    request = f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    clients: list[socket.socket] = []
    end = time.monotonic() + 30
    while len(clients) < CLIENTS:
        try:
            client = socket.create_connection(("127.0.0.1", port), timeout=5)
            client.sendall(request)
            client.recv(1000)
            clients.append(client)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
    return clients


def view(port: int) -> None:
    """The viewers, in a process of their own: they read all that they are sent."""
    clients = _connect(port)
    print("connected", flush=True)
    while True:
        ready, _, _ = select.select(clients, [], [])
        for client in ready:
            client.recv(1 << 20)


def cycles(feed: ViewerFeed | None, state: ClusterState, base: int) -> float:
    """Seconds of processor time of this thread for so many cycles in which pods start and end."""
    policy = default_policy(default_registry().catalog)
    pods = [
        [a_pod(base + step * CHANGED + number, f"node-{number:05}") for number in range(CHANGED)]
        for step in range(ROUNDS)
    ]
    batches: list[list[Event]] = [[Upserted(pod) for pod in some] for some in pods]
    for step in range(ROUNDS):
        batches[(step + LASTING) % ROUNDS] += [Deleted(pod) for pod in pods[step]]
    begin = time.thread_time()
    for step, events in enumerate(batches):
        for event in events:
            state.apply(event)
        if feed is not None:
            feed.applied(events)
        now = NOW + step * SECOND
        plan = (decide_and_explain if step % 10 == 0 else decide)(state, policy, now)
        cycle = Cycle(step, now, plan, (), 0)
        report_of(cycle)
        if feed is not None:
            feed.decided(cycle)
    return time.thread_time() - begin


@contextmanager
def busy_process() -> Iterator[None]:
    """Any process on the other core: what sharing the machine costs, whatever it is shared with."""
    process = subprocess.Popen([sys.executable, "-c", "import itertools\nfor number in itertools.count(): str(number)"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure_viewers() -> None:
    """Alternately without and with the page, so that the machine's moods meet both."""
    state = ClusterState()
    things = world(2_000, 20_000, 5_000)
    for thing in things:
        state.apply(Upserted(thing))
    alone: list[float] = []
    watched: list[float] = []
    beside: list[float] = []
    handing: list[float] = []
    path = str(Path(tempfile.mkdtemp(prefix="fairway-")) / "feed.sock")
    feed = ViewerFeed(path, FeedHead("benchmark"), lambda: list(things), lambda: NO_FACTS, lambda call: call())
    feed.start(default_policy(default_registry().catalog))
    with served_page(path):
        time.sleep(3)
        cycles(None, state, 100_000)
        for turn in range(TURNS):
            for one in (None, feed) if turn % 2 else (feed, None):
                before = feed.processor_time
                (alone if one is None else watched).append(cycles(one, state, 100_000))
                time.sleep(1)  # what was handed over is written; and all begin after the same pause
                if one is not None:
                    handing.append(feed.processor_time - before)
            with busy_process():
                beside.append(cycles(None, state, 100_000))
            time.sleep(1)
        feed.stop()
    own, other, writing, control = (statistics.median(times) for times in (alone, watched, handing, beside))
    print(f"{ROUNDS} cycles in each of which {CHANGED} pods start and {CHANGED} end: {own:.2f} s alone; with a page of "
          f"{CLIENTS} viewers {other:.2f} s and {writing:.3f} s for handing over: {(other + writing) / own:.3f}, of it "
          f"handing over {writing / own:.3f}; beside a process that only counts {control / own:.3f}")  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 1:
        view(int(sys.argv[1]))
    measure_views()
    measure_viewers()
