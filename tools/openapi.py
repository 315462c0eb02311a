"""`python -m tools.openapi`: frontend/openapi.json, from the table of operations and the models of the views.

Examples are responses of the demo at a fixed time: they are the same on every machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from starlette.datastructures import QueryParams
from starlette.routing import compile_path

from fairway.api.policy import Policy
from fairway.app.sandbox.engine import Sandbox, create
from fairway.app.sandbox.store import Store
from fairway.app.sandbox.world import demo_scenario, demo_world
from fairway.app.view.history_ring import HistoryRing
from fairway.cli.inputs import read_policy
from fairway.clock import SECOND
from fairway.web.answers import ANSWERS
from fairway.web.asking import Asked, Viewer, read_query
from fairway.web.contract import OPERATIONS, Operation
from fairway.web.openapi import document
from fairway.web.sandbox_page import sandbox_watch
from fairway.web.shown import ShownCluster
from fairway.web.worker import WhatIfWorker

FILE = Path(__file__).resolve().parents[1] / "frontend" / "openapi.json"
MINUTES = 25
"""Time into the demo: the big job is pending and has its reservation."""


def demo_shown() -> ShownCluster:
    scenario = demo_scenario()
    own = scenario.file.policy
    return demo_with(read_policy(None if own is None else str(scenario.resolve(own))))


def demo_with(policy: Policy, minutes: int = MINUTES) -> ShownCluster:
    """The demo in memory, watched from its start."""
    store = Store(":memory:")
    world = demo_world()
    create(store, world, policy)
    sandbox = Sandbox(store, stopwatch=lambda: 0)
    watch, history = sandbox_watch(sandbox), HistoryRing()
    watch.drawn = history.take
    for minute in range(minutes + 1):
        sandbox.advance(world.start + minute * 60 * SECOND)
        watch.catch_up()
    return ShownCluster("sandbox", "Sandbox", watch, sandbox=sandbox, history=history, what_if=WhatIfWorker())


def examples(shown: ShownCluster) -> dict[str, Any]:
    found = {}
    for operation in OPERATIONS:
        if operation.example and operation.name != "fleet":  # a sandbox has none
            found[operation.name] = msgspec.to_builtins(ANSWERS[operation.name](shown, asked(operation)))
    return found


def asked(operation: Operation) -> Asked:
    parts = urlsplit(operation.example)
    pattern, _, _ = compile_path(operation.path)
    match = pattern.match(parts.path)
    assert match is not None, operation.example
    query = read_query(operation, QueryParams(parse_qsl(parts.query)))
    return Asked(Viewer("you"), match.groupdict(), query)


def text() -> str:
    return json.dumps(document(examples(demo_shown())), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text())
    print(f"wrote {FILE.relative_to(FILE.parents[1])}")
