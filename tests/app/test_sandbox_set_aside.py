"""An object in the file that is not valid: it is set aside and shown, and the sandbox goes on with the others."""

import json
import sqlite3
from pathlib import Path

import pytest

from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.store import Store
from support.bombs import nested_all
from support.devices import published, resource_slice
from support.objects import group, node, pod, queue
from support.objects import made as made_object
from support.sandboxes import after, made, phases, reopened, running_for

WRONG = {
    "Queue": ("weight", {"weight": 0}),
    "Pod": ("tolerations", {"containers": [{"name": "c"}], "tolerations": [{"key": "a", "operator": "Sometimes"}]}),
    "PodGroup": ("minMember", {"minMember": -5}),
    "Node": ("taints", {"taints": [{"key": "", "effect": "NoSchedule"}]}),
}


@pytest.mark.parametrize("kind", WRONG)
def test_it_is_shown_and_everything_else_goes_on(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    good = pod("good", cpu=1, annotations=running_for("1h"))
    bad = {"Queue": queue("bad"), "Pod": pod("bad", cpu=1), "PodGroup": group("bad"), "Node": node("bad", cpu=1)}[kind]
    after(made(node("n", cpu=2), good, bad, path=path), 5).close()
    field, spec = WRONG[kind]
    body = json.dumps({"metadata": {"name": "bad"}, "spec": spec}).encode()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE objects SET body = ? WHERE kind = ? AND name = 'bad'", (body, kind))
    connection.close()
    for _ in range(2):
        sandbox = Sandbox(Store(str(path)))
        [warning] = [text for text in sandbox.frame().warnings if "is set aside" in text]
        assert warning.startswith(kind.lower())
        assert field in warning
        assert phases(after(sandbox, 20))["good"] == "running"
        sandbox.close()


def test_a_sandbox_with_a_bomb_lives_on_and_comes_up_again(tmp_path: Path) -> None:
    selector = [{"cel": {"expression": nested_all(2)}}]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selector}}
    sandbox = made(
        node("n", cpu=2),
        resource_slice("s", "n", published("d")),
        made_object("DeviceClass", "gpu", spec={}),
        made_object("ResourceClaim", "c", "default", spec={"devices": {"requests": [request]}}),
        pod("bad", cpu=1, spec={"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}),
        pod("good", cpu=1, annotations=running_for("1h")),
        path=tmp_path / "s.db",
    )
    assert phases(after(sandbox, 5))["good"] == "running"
    again = reopened(sandbox)
    assert phases(after(again, 10))["good"] == "running"
    assert "bad" in phases(again)
