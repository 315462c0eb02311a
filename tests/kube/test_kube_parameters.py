"""Parameters of devices are nested as deep as their user likes: the claim is left out alone, and reading goes on."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.devices import ResourceClaim
from fairway.kube.kinds import SCHEDULER_KINDS
from fairway.kube.reading.decoding import MAX_DEPTH, ObjectDecoder, UnreadableObject, without_deep_values
from fairway.kube.reading.served import ServedKind

RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}


def decoder() -> ObjectDecoder:
    kind = next(kind for kind in SCHEDULER_KINDS if kind.name == "ResourceClaim")
    return ObjectDecoder(ServedKind(kind, kind.api_versions[0], "resourceclaims"))


def claim(name: str, levels: int, *, allocated: bool = False, broken: bool = False) -> bytes:
    """A claim whose parameters have so many levels, the outermost an object."""
    parameters = '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    config = '[{"opaque":{"driver":"d","parameters":' + parameters + "}}]"
    results = json.dumps([RESULT])
    status = '{"allocation":{"devices":{"results":' + results + ',"config":' + config + "}}}" if allocated else "{}"
    labels = '{"n":1}' if broken else "{}"
    meta = f'{{"name":"{name}","namespace":"a","uid":"u","resourceVersion":"7","labels":{labels}}}'
    return f'{{"metadata":{meta},"spec":{{"devices":{{"config":{config}}}}},"status":{status}}}'.encode()


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 150, 900, 5000])
@pytest.mark.parametrize("broken", [False, True])
def test_one_claim_of_a_page_is_left_out_by_its_name_and_the_others_are_read(levels: int, broken: bool) -> None:
    items = b",".join([claim("one", 2), claim("deep", levels, broken=broken), claim("two", MAX_DEPTH)])
    page = decoder().page(
        b'{"kind":"ResourceClaimList","metadata":{"resourceVersion":"9","continue":"more"},"items":[' + items + b"]}"
    )
    assert [thing.metadata.name for thing in page.things] == ["one", "two"]
    assert [left.key for left in page.unreadable] == [("ResourceClaim", "a", "deep")]
    assert (page.version, page.more) == ("9", "more")


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900, 5000])
def test_one_event_is_left_out_by_its_name(levels: int) -> None:
    event = decoder().event(b'{"type":"MODIFIED","object":' + claim("deep", levels) + b"}")
    assert event.thing is None
    assert event.version == "7"
    assert isinstance(event.unreadable, UnreadableObject)
    assert event.unreadable.key == ("ResourceClaim", "a", "deep")


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900, 5000])
def test_devices_that_such_a_claim_has_already_count(levels: int) -> None:
    event = decoder().event(b'{"type":"ADDED","object":' + claim("deep", levels, allocated=True) + b"}")
    assert isinstance(event.thing, ResourceClaim)
    assert event.thing.status.allocation is not None
    assert [result.device for result in event.thing.status.allocation.devices.results] == ["gpu-0"]


def test_parameters_that_are_not_too_deep_are_kept_as_they_are() -> None:
    event = decoder().event(b'{"type":"ADDED","object":' + claim("one", MAX_DEPTH) + b"}")
    assert isinstance(event.thing, ResourceClaim)
    opaque = event.thing.spec.devices.config[0].opaque
    assert opaque is not None
    value, levels = opaque.parameters["a"], 1
    while isinstance(value, list):
        value, levels = value[0] if value else None, levels + 1
    assert levels == MAX_DEPTH


def test_bytes_that_are_no_text_make_one_object_unreadable() -> None:
    event = decoder().event(b'{"type":"ADDED","object":{"metadata":{"name":"a","labels":{"x":"\xff"}}}}')
    assert event.unreadable is not None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


def pruned(value: Any, left: int) -> Any:
    if not isinstance(value, list | dict):
        return value
    if left == 0:
        return None
    if isinstance(value, list):
        return [pruned(inner, left - 1) for inner in value]
    return {name: pruned(inner, left - 1) for name, inner in value.items()}


@given(values, st.integers(1, 5), st.booleans())
def test_what_is_cut_is_what_is_too_deep(value: Any, deepest: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert json.loads(without_deep_values(text, deepest)) == pruned(value, deepest)
