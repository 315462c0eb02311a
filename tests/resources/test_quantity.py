"""What is read as a quantity, what is refused with which words, what is printed, and a slow twin."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import QuantityError
from fairway.resources.quantity import (
    INT64_MAX,
    AmountUnit,
    Format,
    Quantity,
    format_amount,
    parse_amount,
    parse_quantity,
    unit_of,
)

CANONICAL = {
    "0": "0",
    "-0": "0",
    "0Mi": "0",
    "0e999999999": "0",
    "007": "7",
    "0.5": "500m",
    ".5": "500m",
    "-.5": "-500m",
    "5.": "5",
    "5.M": "5M",
    "+1": "1",
    "1500m": "1500m",
    "2000m": "2",
    "1000": "1k",
    "123456789": "123456789",
    "1E": "1E",
    "1000E": "1e21",
    "1e3": "1e3",
    "1E3": "1e3",
    "1e+3": "1e3",
    "1e4": "10e3",
    "1e0": "1",
    "100e-3": "100e-3",
    "2Gi": "2Gi",
    "2048Mi": "2Gi",
    "1.5Gi": "1536Mi",
    "0.5Ki": "512",
    "1.1Ki": "1126400m",
    "1n": "1n",
    "0.1n": "1n",
    "-0.1n": "-1n",
    "1.1n": "2n",
    "1e-10": "1e-9",
    "1e-999999999": "1e-9",
    "3.3u": "3300n",
}


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.items())
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical
    assert parse_quantity(canonical) == parse_quantity(text)


REFUSED = {
    "": "empty",
    " 1": "blanks",
    "1 ": "blanks",
    "1 Gi": "blanks",
    "1\n": "blanks",
    "1K": "expected k (1000) or Ki (1024)",
    "1_000": "'_' cannot stand inside a number",
    "1..2": "'.' cannot stand inside a number",
    "NaN": "expected a number",
    "inf": "expected a number",
    "Mi": "expected a number",
    "+": "expected a number",
    ".": "expected a number",
    "--1": "expected a number",
    "１２": "only the digits 0 to 9",
    "1٣": "cannot stand inside a number",
    "1i": "unknown suffix 'i'",
    "1ki": "unknown suffix 'ki'",
    "1mi": "unknown suffix 'mi'",
    "1GB": "unknown suffix 'GB'",
    "0x10": "unknown suffix 'x10'",
    "1,5": "unknown suffix ',5'",
    "1e": "not an exponent",
    "1E+": "not an exponent",
    "1e1.5": "not an exponent",
    "1e3k": "not an exponent",
    "1e999999999": "too large",
    "9" * 129: "at most 128",
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_what_go_refuses_is_refused_with_text_and_reason(text: str, reason: str) -> None:
    with pytest.raises(QuantityError, match=re.escape(reason)) as caught:
        parse_quantity(text)
    assert repr(text[:20])[:-1] in str(caught.value)


def test_the_format_is_remembered_but_does_not_count_in_equality() -> None:
    assert parse_quantity("1Ki").format is Format.BINARY_SI
    assert parse_quantity("1E3").format is Format.DECIMAL_EXPONENT
    assert parse_quantity("1E").format is Format.DECIMAL_SI
    assert parse_quantity("0.0001Ki").format is Format.DECIMAL_SI
    assert parse_quantity("1024") == parse_quantity("1Ki")
    assert hash(parse_quantity("1024")) == hash(parse_quantity("1Ki"))


def test_rounding_is_away_from_zero_to_the_unit_asked_for() -> None:
    quantity = parse_quantity("1000000001n")
    assert (quantity.nanos, quantity.milli(), quantity.units()) == (1_000_000_001, 1001, 2)
    assert parse_quantity("-1.5").units() == -2


@pytest.mark.parametrize("text", ["8Ei", "9223372036854775808", "1e30", "-8Ei"])
def test_beyond_int64_is_an_error_not_a_cap(text: str) -> None:
    with pytest.raises(QuantityError, match="does not fit an int64"):
        parse_quantity(text).units()
    with pytest.raises(QuantityError, match="does not fit an int64"):
        parse_quantity(text).milli()


def test_the_largest_int64_is_exact() -> None:
    assert parse_quantity(str(INT64_MAX)).units() == INT64_MAX
    assert parse_quantity("9223372036854775807m").milli() == INT64_MAX


@pytest.mark.parametrize(
    ("name", "value", "amount", "text"),
    [
        ("cpu", "1500m", 1500, "1500m"),
        ("cpu", 2, 2000, "2"),
        ("cpu", 0.5, 500, "500m"),
        ("cpu", "0.0001", 1, "1m"),
        ("memory", "2Gi", 2**31, "2Gi"),
        ("memory", 1e9, 10**9, "1G"),
        ("memory", "1000000001m", 1_000_001, "1000001"),
        ("memory", "1500Mi", 1500 * 2**20, "1500Mi"),
        ("memory", "512k", 512_000, "512k"),
        ("ephemeral-storage", "1Ki", 1024, "1Ki"),
        ("hugepages-2Mi", "4Mi", 4 * 2**20, "4Mi"),
        ("pods", "110", 110, "110"),
        ("nvidia.com/gpu", "8", 8000, "8"),
        ("nvidia.com/gpu", 0, 0, "0"),
    ],
)
def test_amounts_of_named_resources(name: str, value: str | int | float, amount: int, text: str) -> None:
    assert parse_amount(name, value) == amount
    assert format_amount(name, amount) == text


def test_the_unit_of_each_resource() -> None:
    assert [unit_of(name) for name in ("cpu", "memory", "storage", "hugepages-1Gi", "pods", "example.com/x")] == [
        AmountUnit.MILLI,
        AmountUnit.BYTE,
        AmountUnit.BYTE,
        AmountUnit.BYTE,
        AmountUnit.WHOLE,
        AmountUnit.MILLI,
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(1 << 20000, "does not fit an int64", id="huge"),
        ("-1", "must not be negative"),
        (-1, "must not be negative"),
        ("-1n", "must not be negative"),
        (True, "expected a number"),
        (float("nan"), "expected a number"),
        (float("inf"), "expected a number"),
        (2**63, "does not fit an int64"),
        ("10P", "does not fit an int64"),
        (None, "expected a number"),
    ],
)
def test_amounts_refused(value: str | int | float, reason: str) -> None:
    with pytest.raises(QuantityError, match=reason):
        parse_amount("cpu", value)


def test_the_largest_number_that_is_read_and_the_first_that_is_not() -> None:
    assert parse_amount("memory", INT64_MAX) == INT64_MAX
    with pytest.raises(QuantityError, match="does not fit an int64"):
        parse_amount("memory", INT64_MAX + 1)


@pytest.mark.parametrize(
    ("amount", "reason"), [(-1, "amount of cpu must not be negative"), (INT64_MAX + 1, "does not fit an int64")]
)
def test_an_amount_that_may_not_be_kept_is_not_written(amount: int, reason: str) -> None:
    with pytest.raises(QuantityError, match=reason):
        format_amount("cpu", amount)


def test_the_longest_text_that_is_read() -> None:
    assert parse_quantity("0" * 127 + "7") == Quantity(7 * 10**9)
    with pytest.raises(QuantityError, match="129 characters, expected at most 128"):
        parse_quantity("0" * 128 + "7")


def test_of_a_text_that_is_too_long_the_beginning_is_shown() -> None:
    text = "1234567890" * 100
    with pytest.raises(QuantityError) as error:
        parse_quantity(text)
    assert f"{text[:32]}..." in str(error.value)
    assert "1000 characters" in str(error.value)


def test_zero_keeps_the_family_of_its_suffix_and_a_part_of_one_does_not() -> None:
    formats = [parse_quantity(text).format for text in ("0Ki", "0.5Mi", "0.0005Ki")]
    assert formats == [Format.BINARY_SI, Format.BINARY_SI, Format.DECIMAL_SI]


def test_a_cached_one_does_not_answer_for_true() -> None:
    assert parse_amount("cpu", 1) == 1000
    with pytest.raises(QuantityError):
        parse_amount("cpu", True)


POWERS = {
    **{s: Fraction(10) ** p for s, p in zip("num", (-9, -6, -3), strict=True)},
    "": Fraction(1),
    **{s: Fraction(1000) ** p for p, s in enumerate("kMGTPE", start=1)},
    **{f"{s}i": Fraction(1024) ** p for p, s in enumerate("KMGTPE", start=1)},
    **{f"{e}{p}": Fraction(10) ** p for e in "eE" for p in range(-12, 13)},
}
digits = st.text("0123456789", max_size=20)


@given(sign=st.sampled_from(["", "+", "-"]), whole=digits, part=digits, suffix=st.sampled_from(sorted(POWERS)))
def test_equal_to_the_slow_twin_with_fractions(sign: str, whole: str, part: str, suffix: str) -> None:
    text = f"{sign}{whole}.{part}{suffix}"
    if not whole + part:
        with pytest.raises(QuantityError):
            parse_quantity(text)
        return
    exact = Fraction(int(whole + part), 10 ** len(part)) * POWERS[suffix]
    nanos = ceil(exact * 10**9)
    assert parse_quantity(text).nanos == (-nanos if sign == "-" else nanos)


@given(st.text("0123456789.+-eEinumkKMGTP _", max_size=8))
def test_whatever_is_read_prints_to_the_same_value(text: str) -> None:
    try:
        quantity = parse_quantity(text)
    except QuantityError:
        return
    assert parse_quantity(str(quantity)) == quantity
    assert str(parse_quantity(str(quantity))) == str(quantity)


@given(st.integers(), st.sampled_from(Format))
def test_any_quantity_survives_its_text(nanos: int, format: Format) -> None:
    assert parse_quantity(str(Quantity(nanos, format))).nanos == nanos


@given(st.sampled_from(["cpu", "memory", "pods", "example.com/x"]), st.integers(0, INT64_MAX))
def test_any_amount_survives_its_text(name: str, amount: int) -> None:
    assert parse_amount(name, format_amount(name, amount)) == amount
