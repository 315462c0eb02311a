"""How an attribute meets a class: the case table, the rules one by one, and the readers of texts."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.devices import ClassRequirement, ClassSelector
from fairway.devices.model.device import Device
from fairway.devices.model.values import (
    DIMENSION_MISMATCH,
    NOT_ORDERED,
    PROBLEMS,
    TYPE_MISMATCH,
    Dimension,
    Flag,
    Many,
    Raw,
    Text,
    Value,
    Version,
    infer,
    of_int,
    of_quantity,
    operand,
    parse_number,
    parse_version,
    published_version,
)
from fairway.devices.select.selectors import INVALID, OPERATORS, compile_selector, evaluate
from fairway.resources.quantity import parse_quantity

ROWS = json.loads((Path(__file__).parent.parent / "cases" / "device-values.json").read_text())["cases"]


def attribute(kind: str, value: Any) -> Value:
    match kind:
        case "int":
            return of_int(value)
        case "bool":
            return Flag(value)
        case "string":
            return Text(value)
        case "version":
            return published_version(value)
        case "quantity":
            return of_quantity(parse_quantity(value))
        case "list":
            return Many(tuple(map(Raw, value)))
    assert kind == "raw"
    return Raw(value)


def answer(value: Value | None, operator: str, *values: str) -> str:
    """What the case table says: `match`, `no match`, `no match (Reason)` or `Invalid: ...`."""
    device = Device("n", "", "", "d", "k", attributes={} if value is None else {"a": value})
    requirement = ClassRequirement("a", operator, values)  # type: ignore[arg-type]
    matcher = compile_selector([ClassSelector((requirement,))])
    result = matcher.match(device)
    if matcher.problems:
        assert not result.matched
        assert result.terms[0].requirements[0].reason == INVALID
        return f"Invalid: {matcher.problems[0].message}"
    reason = result.terms[0].requirements[0].reason
    if result.matched:
        assert reason == ""
        return "match"
    assert result.problems == ((reason,) if reason in PROBLEMS else ())
    return f"no match ({reason})" if reason in PROBLEMS else "no match"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_case_table(row: dict[str, Any]) -> None:
    value = None if row["attribute"] is None else attribute(*next(iter(row["attribute"].items())))
    assert answer(value, row["operator"], *row["values"]).startswith(row["expect"])
    if not row["expect"].startswith("Invalid"):
        assert answer(value, row["operator"], *row["values"]) == row["expect"]


@pytest.mark.parametrize(
    ("value", "operator", "values", "expected"),
    [
        # marked versions, and what three dotted numbers mean
        (Raw("3.7"), "Lt", ["v3.10"], "match"),
        (Raw("v3.7"), "Lt", ["3.10"], "match"),
        (Raw("a100"), "NotIn", ["v100"], "match"),
        (Raw("a100"), "Gt", ["v100"], f"no match ({NOT_ORDERED})"),
        (Raw("v100"), "Eq", ["v100.0.0"], "match"),
        (Raw("v100_sxm"), "In", ["v100_sxm"], "match"),
        (Raw("535"), "Gt", ["450.80.02"], f"no match ({TYPE_MISMATCH})"),
        (of_int(3), "Eq", ["v3"], f"no match ({TYPE_MISMATCH})"),
        (Text("3.7"), "Eq", ["v3.7"], "no match"),
        (Raw("1.2.3.4"), "Eq", ["1.2.3.4"], "match"),
        (published_version("1.2.3.4"), "Eq", ["1.2.3.4"], f"no match ({TYPE_MISMATCH})"),
        (published_version("1.2.3.4"), "Exists", [], "match"),
        (published_version("1.7.0+build5"), "Eq", ["v1.7"], "match"),
        (published_version("1.7.0-rc.2"), "Lt", ["1.7.0-rc.10"], "match"),
        (published_version("1.7.0-rc.2"), "Lt", ["1.7.0-rc.a"], "match"),
        # dimensions
        (Raw("30W"), "Eq", ["30"], f"no match ({DIMENSION_MISMATCH})"),
        (Raw("40G"), "GtEq", ["40GBPS"], f"no match ({DIMENSION_MISMATCH})"),
        (Raw("30000000000"), "Eq", ["30GB"], f"no match ({DIMENSION_MISMATCH})"),
        (Raw("30GB"), "NotIn", ["30W"], f"no match ({DIMENSION_MISMATCH})"),
        (of_int(30), "Eq", ["30B"], f"no match ({DIMENSION_MISMATCH})"),
        (of_quantity(parse_quantity("85899345920")), "Eq", ["80GiB"], "match"),
        (of_quantity(parse_quantity("80Gi")), "Eq", ["80Gbps"], f"no match ({DIMENSION_MISMATCH})"),
        (Raw("1MW"), "Gt", ["1500mW"], "match"),
        (Raw("40GBps"), "Eq", ["320Gbps"], "match"),
        (Raw("1Kibps"), "Eq", ["1024b/s"], "match"),
        (Raw("1KB"), "Eq", ["1kB"], "match"),
        # text that is nearly a number
        (Raw("32K"), "Eq", ["32k"], "no match"),
        (Raw("32 G"), "Eq", ["32G"], "no match"),
        (Raw("１２"), "Eq", ["12"], "no match"),
        (Raw("0x10"), "Gt", ["1"], f"no match ({NOT_ORDERED})"),
        (Raw("0.1n"), "Lt", ["1n"], "match"),
        # strings, flags, lists
        (Raw("nvidia-gpu "), "Eq", ["nvidia-gpu"], "no match"),
        (Raw("True"), "Eq", ["true"], "no match"),
        (Raw("true"), "Gt", ["0"], f"no match ({NOT_ORDERED})"),
        (Flag(False), "In", ["no", "false"], "match"),
        (Flag(False), "In", ["no"], f"no match ({TYPE_MISMATCH})"),
        (Flag(False), "NotIn", ["true", "no"], f"no match ({TYPE_MISMATCH})"),
        (Text("30G"), "GtEq", ["30G"], f"no match ({NOT_ORDERED})"),
        (of_int(8), "In", ["abc", "8"], "match"),
        (of_int(8), "NotIn", ["abc"], f"no match ({TYPE_MISMATCH})"),
        (of_int(8), "NotIn", ["abc", "8"], "no match"),
        (Many((Text("a"), Text("b"))), "In", ["b"], "match"),
        (Many((Text("a"), Text("b"))), "NotIn", ["b"], "no match"),
        (Many((Text("a"), Text("b"))), "Eq", ["a"], "match"),
        (Many((of_int(1), of_int(2))), "Gt", ["0"], f"no match ({NOT_ORDERED})"),
        (Many(()), "NotIn", ["x"], "match"),
        (Raw(""), "Eq", [""], "match"),
        # absent, and present where it must not be
        (None, "Eq", ["x"], "no match"),
        (Raw("x"), "DoesNotExist", [], "no match"),
        (Raw("x"), "Exists", ["x"], "Invalid: no value, Exists got 1"),
        (Raw("x"), "Lt", ["1.2.3.4"], "Invalid: operand is neither a number nor a version: '1.2.3.4'"),
    ],
)
def test_rule(value: Value | None, operator: str, values: list[str], expected: str) -> None:
    assert answer(value, operator, *values) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("true", Flag),
        ("TRUE", Text),
        ("8.6.0", Version),
        ("535.104.05", Version),
        ("v8", Version),
        ("1.2.3-beta+x", Version),
        ("1.2.3.4", Text),
        ("8-beta", Text),
        ("v", Text),
        ("1_000", Text),
        ("nan", Text),
        ("Infinity", Text),
        ("1e3 ", Text),
        ("1e999999", Text),
        ("9" * 1000, Text),
        ("1." + "9" * 100 + ".3", Text),
        ("", Text),
        (".", Text),
        ("+", Text),
    ],
)
def test_what_raw_text_is_taken_for(text: str, kind: type) -> None:
    assert isinstance(infer(text), kind)


@pytest.mark.parametrize(
    ("text", "value", "dimension"),
    [
        ("-1.5", Fraction(-3, 2), Dimension.SCALAR),
        (".5", Fraction(1, 2), Dimension.SCALAR),
        ("5.", 5, Dimension.SCALAR),
        ("1E", 10**18, Dimension.SCALAR),
        ("1E3", 1000, Dimension.SCALAR),
        ("1EB", 10**18, Dimension.BYTES),
        ("1 EiB", 2**60, Dimension.BYTES),
        ("2MB/s", 16_000_000, Dimension.BITS_PER_SECOND),
        ("2 Mbit/s", 2_000_000, Dimension.BITS_PER_SECOND),
        ("40GBPS", 40 * 10**9, Dimension.BITS_PER_SECOND),
        ("1.4 GHz", 1_400_000_000, Dimension.HERTZ),
        ("1500mW", Fraction(3, 2), Dimension.WATT),
    ],
)
def test_numbers_are_exact(text: str, value: int | Fraction, dimension: Dimension) -> None:
    number = parse_number(text)
    assert number is not None
    assert (number.value, number.dimension) == (value, dimension)
    assert number.ambiguous is (text == "40GBPS")


@pytest.mark.parametrize("text", ["1  GB", "1 G", "1GIB", "1gb", "1 ", "1K", "1e3 Hz", "GB", "1mB", "1KiHz", "1e500"])
def test_not_a_number(text: str) -> None:
    assert parse_number(text) is None


digits = st.text("0123456789", min_size=1, max_size=12)
suffixes = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "e3", "E-3"])


@given(st.sampled_from(["", "-", "+"]), digits, digits, suffixes)
def test_a_number_rounds_up_to_the_quantity_of_the_same_text(sign: str, whole: str, part: str, suffix: str) -> None:
    number = parse_number(f"{sign}{whole}.{part}{suffix}")
    quantity = parse_quantity(f"{sign}{whole}.{part}{suffix}")
    assert number is not None
    distance = quantity.nanos - number.value * 10**9
    assert -1 < distance < 1
    assert distance == 0 or (distance > 0) is (number.value > 0)


part = st.integers(0, 30)
marks = st.lists(st.one_of(st.integers(0, 12).map(str), st.sampled_from(["a", "rc", "b-1"])), max_size=3)
versions = st.builds(
    lambda parts, pre: ".".join(map(str, parts)) + ("-" + ".".join(pre) if pre else ""),
    st.tuples(part, part, part),
    marks,
)


@given(versions)
def test_a_version_survives_its_normal_text(text: str) -> None:
    version = parse_version(f"v0{text}+build.7")
    assert version is not None
    assert version.normal() == text
    assert version.precedence == parse_version(text).precedence


def test_version_precedence_in_the_standard_order() -> None:
    """The example chain of the semantic-version standard."""
    chain = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
    ]
    chain += ["1.0.0-rc.1", "1", "1.0.1", "v1.2", "1.10", "02"]
    keys = [version.precedence for text in chain if (version := parse_version(text))]
    assert len(keys) == len(chain)
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


values = st.one_of(
    st.none(),
    st.builds(Raw, st.text("0123456789.vGBbpsi-truefals ", max_size=6)),
    st.builds(Text, st.text("0123456789.vGB", max_size=4)),
    st.builds(of_int, st.integers(-5, 5)),
    st.builds(Flag, st.booleans()),
    st.builds(lambda items: Many(tuple(map(Raw, items))), st.lists(st.text("ab1", max_size=2), max_size=3)),
)
texts = st.text("0123456789.vGBbpsi-truefals ", max_size=6)


@given(values, texts)
def test_opposites_never_both_match_and_nothing_raises(value: Value | None, text: str) -> None:
    found = {operator: evaluate(operator, value, [operand(text)]) == "" for operator in ("In", "NotIn", "Eq")}
    assert not (found["In"] and found["NotIn"])
    assert found["In"] is found["Eq"]
    if not operand(text).ordered:
        return
    order = {o: evaluate(o, value, [operand(text)]) == "" for o in ("Gt", "GtEq", "Lt", "LtEq")}
    assert not (order["Gt"] and order["LtEq"])
    assert not (order["Lt"] and order["GtEq"])
    assert (order["GtEq"] and order["LtEq"]) is (order["GtEq"] and found["Eq"])
    assert set(order) | set(found) | {"Exists", "DoesNotExist"} == set(OPERATORS)
