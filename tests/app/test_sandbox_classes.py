"""ResourceClasses in a sandbox: their spec cannot be changed, and their status is part of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.app.sandbox.engine import Sandbox
from fairway.errors import InputError
from support.devices import asking, device_node, gpu, kind_class
from support.engine import policy
from support.sandboxes import after, made, reopened, running_for
from support.web_pages import AskedPage

POLICY = policy(devices={})
ANY = kind_class("any", "nvidia-gpu")
OTHER = kind_class("any", "nic")


def world(path: Path | str = ":memory:") -> Sandbox:
    user = asking("u", classes={"any": 1}, annotations=running_for("1h"))
    return after(made(ANY, device_node("n", gpu("a"), gpu("b")), user, path=path, with_policy=POLICY), 5)


def shown(sandbox: Sandbox) -> dict[str, Any]:
    answer = AskedPage(sandbox).get("objects/resourceclass/any")
    assert answer.status == 200
    found: dict[str, Any] = answer.document["items"][0]
    return found


def test_a_changed_spec_is_refused_and_nothing_of_the_request_is_done() -> None:
    sandbox = world()
    with pytest.raises(InputError, match="ResourceClass any: its spec is immutable") as refused:
        sandbox.apply([device_node("new"), OTHER])
    assert "fairway delete resourceclass any" in str(refused.value)
    assert "create it again" in str(refused.value)
    assert [node.name for node in sandbox.nodes()] == ["n"]
    assert shown(sandbox)["spec"]["resourceSelector"][0]["matchExpressions"][0]["values"] == ["nvidia-gpu"]


def test_two_specs_in_one_request_are_refused() -> None:
    sandbox = made(device_node("n"), with_policy=POLICY)
    with pytest.raises(InputError, match="immutable"):
        sandbox.apply([ANY, OTHER])
    assert [thing for thing in sandbox.objects() if thing.metadata.name == "any"] == []


def test_the_same_spec_is_unchanged_and_labels_may_change() -> None:
    sandbox = world()
    labelled = kind_class("any", "nvidia-gpu")
    assert [one.result for one in sandbox.apply([labelled])] == ["unchanged"]
    marked = _labelled(labelled)
    assert [one.result for one in sandbox.apply([marked])] == ["configured"]


def test_after_delete_it_can_be_created_with_another_spec() -> None:
    sandbox = world()
    sandbox.delete([("ResourceClass", "", "any")])
    assert [one.result for one in sandbox.apply([OTHER])] == ["created"]
    assert shown(sandbox)["status"] == {"allocatable": 0, "requested": 0, "selector": "Kind=nic"}


def test_the_status_is_part_of_the_object_also_after_a_restart(tmp_path: Path) -> None:
    sandbox = world(tmp_path / "state.db")
    assert shown(sandbox)["status"] == {"allocatable": 2, "requested": 1, "selector": "Kind=nvidia-gpu"}
    again = reopened(sandbox)
    assert shown(again)["status"] == {"allocatable": 2, "requested": 1, "selector": "Kind=nvidia-gpu"}
    again.close()


def test_what_is_shown_can_be_applied_again() -> None:
    sandbox = world()
    page = AskedPage(sandbox)
    answer = page.get("objects/resourceclass/any")
    applied = page.post("apply", {"objects": answer.document["items"]})
    assert applied.document["items"][0]["result"] == "unchanged"


def _labelled(thing: ApiObject) -> ApiObject:
    return replace(thing, metadata=replace(thing.metadata, labels={"team": "a"}))
