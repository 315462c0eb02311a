"""The language itself: our evaluation gives what the library's own gives, on random expressions and random input."""

from __future__ import annotations

from typing import Any

import pytest
from cel_expr_python import cel  # type: ignore[import-untyped]
from cel_expr_python.ext import ext_bindings, ext_optional  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.cel import Environment
from fairway.errors import InputError
from support.effort import examples

OURS = Environment({"m": "dyn"})
THEIRS = cel.NewEnv(variables={"m": cel.Type.DYN}, extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional()])
MANY = examples(400, 20_000)
INPUT: dict[str, Any] = {"a": 1, "b": "x", "l": [1, 2, 3], "d": {"k": "v", "n": None}, "t": True, "f": 1.5}

_LITERALS = ("0", "1", "-7", "2", "1.5", '"x"', '""', '"abc"', "true", "false", "null", "[1, 2]", "[]", '{"k": 1}')
_LOOKED_UP = (
    "m.a",
    "m.b",
    "m.l",
    "m.d",
    "m.d.k",
    "m.gone",
    "m.l[1]",
    "m.l[9]",
    'm["t"]',
    "m.f",
    "m.?a.hasValue()",
    'm[?"zz"].hasValue()',
)
literals = st.sampled_from((*_LITERALS, *_LOOKED_UP))


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"])
    macros = st.sampled_from(["all", "exists", "exists_one", "map", "filter"])
    return st.one_of(
        st.builds("({} {} {})".format, inner, operators, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("size({})".format, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("dyn({})".format, inner),
        st.builds("{}.{}(x, {})".format, st.sampled_from(["m.l", "[1, 2]", "m.d", "[]"]), macros, inner),
        st.builds("{}.exists(x, x == {} || {})".format, st.sampled_from(["m.l", "m.d"]), inner, inner),
        st.builds("cel.bind(x, {}, x == {})".format, inner, inner),
        st.builds("has(m.{})".format, st.sampled_from(["a", "zz", "d"])),
        st.builds("m.?{}.orValue({})".format, st.sampled_from(["a", "zz"]), inner),
        st.builds("string({})".format, st.sampled_from(["1", '"x"', "true", "m.a", "m.b", "m.t"])),
        st.builds("int({})".format, st.sampled_from(["1.9", '"12"', '"zz"', "m.f", "m.b"])),
        st.builds('"abc".{}({})'.format, st.sampled_from(["contains", "startsWith", "endsWith", "matches"]), inner),
    )


@settings(max_examples=MANY)
@given(st.recursive(literals, _joined, max_leaves=8))
def test_as_the_library(text: str) -> None:
    whole = f"({text}) == ({text}) || true ? dyn({text}) : dyn(1)"
    try:
        theirs = THEIRS.compile(whole).eval(data={"m": INPUT})
    except RuntimeError:
        return
    ours = OURS.program(whole).run({"m": INPUT})
    if theirs.type().name() == "ERROR":
        assert ours.error, f"{text} gives {ours.value!r}, expected an error"
        return
    assert not ours.error, f"{text} fails: {ours.error}"
    assert plain(theirs.plain_value()) == plain(ours.value), text


def plain(value: Any) -> Any:
    """Values with their types: 1 and 1.0 are equal in Python."""
    return [plain(item) for item in value] if isinstance(value, list) else (type(value).__name__, value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("m.", "Syntax error"),
        ("n == 1", "undeclared reference to 'n'"),
        ("1 + 1", "gives INT, expected BOOL"),
        ("m.quantities()", "undeclared reference"),
        ('"a" + 1 == "a"', "no matching overload"),
        ("m.a == " + "1" * 20_000, "characters long, expected at most 10240"),
        ("(" * 3000 + "true" + ")" * 3000, "does not compile"),
        ("m.all(i, v, true)", "does not compile"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(text: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        OURS.program(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("9223372036854775807 + m.a == 0", "integer overflow"),
        ("-9223372036854775807 - 2 == m.a", "integer overflow"),
        ("m.a / 0 == 1", "division by zero"),
        ("m.gone == 1", "no such key: 'gone'"),
        ("m.a.b == 1", "a int has no field 'b'"),
        ("m.l[7] == 1", "index 7 is out of range"),
        ("optional.none().value() == 1", "not there"),
        ("m.b < m.a", "no such overload"),
        ('int("9" + "9".replace("9", "99999999999999999999999999999999999999")) == 1', "not a whole number"),
        ("m.b && true", "expected true or false"),
    ],
)
def test_what_fails_while_it_runs_is_an_error_and_no_exception(text: str, error: str) -> None:
    answer = OURS.program(text).run({"m": INPUT})
    assert error in answer.error
    assert (answer.value, answer.failed) == (None, False)
