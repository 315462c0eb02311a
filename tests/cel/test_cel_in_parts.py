"""An evaluation in parts gives what one at a stretch gives, and an answer depends on nothing but what is read."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cel import Evaluation, Program
from fairway.cel.program import MAX_COST
from fairway.cel.tree import ValueOf
from fairway.devices.select.cel_selectors import ENVIRONMENT
from support.bombs import doubled, mapped, nested_all, shared

DEVICE: dict[str, Any] = {
    "device.driver": "a.example.com",
    "device.attributes": {"a.example.com": {"model": "m", "n": 3, "list": [1, 2, 3]}},
    "device.capacity": {},
    "device.allowMultipleAllocations": False,
}
OWN = 'device.attributes["a.example.com"]'
TEXTS = [
    "true",
    f'{OWN}.model == "m"',
    f'{OWN}.model == "x" || [1, 2].exists(x, x == 2)',
    f"[1, 2].all(x, {OWN}.list.exists(y, y == x)) && {OWN}.n > 2",
    f"{OWN}.list.map(x, x * 2).filter(x, x > 2).size() == 2",
    f"{OWN}.list.exists_one(x, x == 2) ? [1].all(x, x == 1) : false",
    '[1, 2].map(x, {"k": x})[1].k == 2',
    "cel.bind(x, [1, 2].map(y, y + 1), x[0] + x[1]) == 5",
    "[[1, 2].all(x, x > 0), [3].exists(x, x == 4)] == [true, false]",
    '{"a": [1].map(x, x + 1)}.a[0] == 2',
    f'{OWN}[?"none"].orValue([1].map(x, x)[0]) == 1',
    f'{OWN}[?"n"].or(optional.of([1].map(x, x)[0])).value() == 3',
    f"[1].all(x, {OWN}.none == x)",
    f"{OWN}.none == 1 || [1].all(x, x == 1)",
    f"[1, 2].exists(x, {OWN}.none == x || x == 2)",
    "[1, 2].map(x, x / (x - 1)).size() == 2",
    "!([1].all(x, x == 1))",
    '"abc".matches("[a-c]+") && [1].all(x, x == 1)',
    nested_all(2),
    nested_all(3),
    doubled(),
    shared(),
    mapped(),
]


def in_parts(program: Program, units: int) -> Evaluation:
    partial = program.in_parts(DEVICE)
    for _ in range(MAX_COST + 2):
        answer = partial.advance(units)
        if answer is not None:
            return answer
    raise AssertionError("it never ends")


@pytest.mark.parametrize("units", [1, 7, 1000, 1 << 60])
@pytest.mark.parametrize("text", TEXTS)
def test_parts_make_the_whole(text: str, units: int) -> None:
    program = ENVIRONMENT.program(text, probes=False)
    whole, parts = program.run(DEVICE), in_parts(program, units)
    assert (parts.value, parts.failed, parts.error) == (whole.value, whole.failed, whole.error)


def test_a_part_costs_little_more_than_it_may() -> None:
    partial = ENVIRONMENT.program(nested_all(3), probes=False).in_parts(DEVICE)
    before = 0
    for _ in range(20):
        assert partial.advance(500) is None
        assert 500 <= partial.steps - before < 700
        before = partial.steps


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("true", []),
        ("device.driver == 'a'", [("device.driver",)]),
        ("device.attributes['d'].model == 'a'", [("device.attributes", "d", "model")]),
        ("device.attributes['d']['model'] == 'a'", [("device.attributes", "d", "model")]),
        ("has(device.attributes['d'].model)", [("device.attributes", "d", "model")]),
        ("'model' in device.attributes['d']", [("device.attributes", "d", "model")]),
        ("device.attributes['d'].exists(k, k == 'x')", [("device.attributes", "d")]),
        ("['d'].exists(d, device.attributes[d].x == 1)", [("device.attributes",)]),
        ("device.attributes['d'].?model.orValue('') == ''", [("device.attributes", "d")]),
        ("cel.bind(v, device.attributes['d'], v.model == 'a')", [("device.attributes", "d")]),
        (
            "device.attributes[device.driver].model == 'a'",
            [("device.attributes", ValueOf("device.driver"), "model"), ("device.driver",)],
        ),
    ],
)
def test_what_an_expression_reads(text: str, paths: list[Any]) -> None:
    assert ENVIRONMENT.program(text).reads == frozenset(paths)
