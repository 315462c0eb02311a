"""The CEL export gives the same answers as the matcher on whatever a driver can publish.

A real CEL implementation evaluates the expressions. Kubernetes' own types stand in as bytes: a version as its
text, a quantity as its text, compared by functions that do not use the code under test for versions.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from cel_expr_python import cel  # type: ignore[import-untyped]
from cel_expr_python.ext import ext_bindings  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.devices import ResourceClass, ResourceClassSpec, ResourceSlice
from fairway.api.meta import ObjectMeta
from fairway.devices import compile_selector
from fairway.devices.model.device import from_slice
from fairway.devices.model.inventory import Inventory
from fairway.devices.select.cel_export import MAX_EXPRESSION, NOT_EXPORTED, SELECTS_NOTHING, export  # type: ignore[attr-defined]
from fairway.devices.select.classes import ClassTable
from fairway.resources.quantity import parse_quantity
from support.effort import examples

DRIVER = "gpu.example.com"
OTHER = "other.example.com"


def spec_of(*terms: list[tuple[str, str, list[str]]], **more: Any) -> ResourceClassSpec:
    selector = [{"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in term]} for term in terms]
    return msgspec.convert({"spec": {"resourceSelector": selector, **more}}, ResourceClass).spec


def version_key(text: str) -> tuple[Any, ...]:
    core, _, pre = text.partition("-")
    marks = [(0, int(m), "") if m.isdigit() else (1, 0, m) for m in pre.split(".") if m]
    return (*map(int, core.split(".")), not marks, marks)


def compare(left: bytes, right: bytes) -> int:
    (kind, a), (other, b) = left.decode().split(":", 1), right.decode().split(":", 1)
    assert kind == other
    x, y = (version_key(a), version_key(b)) if kind == "v" else (parse_quantity(a).nanos, parse_quantity(b).nanos)
    return (x > y) - (x < y)  # type: ignore[operator]


def function(name: str, result: cel.Type, parameters: list[cel.Type], member: bool, impl: Any) -> cel.FunctionDecl:
    overload = cel.Overload(f"{name}_1", result, parameters, is_member=member, impl=impl)
    return cel.FunctionDecl(name, [overload])


def semver(text: str) -> bytes:
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", text), f"{text} is not a strict semantic version"
    return f"v:{text}".encode()


STRING, BYTES, INT = cel.Type.STRING, cel.Type.BYTES, cel.Type.INT
ENV = cel.NewEnv(
    variables={
        "device.driver": STRING,
        "device.attributes": cel.Type.Map(STRING, cel.Type.Map(STRING, cel.Type.DYN)),
        "device.capacity": cel.Type.Map(STRING, cel.Type.Map(STRING, BYTES)),
    },
    extensions=[ext_bindings.ExtBindings()],
    functions=[
        function("semver", BYTES, [STRING], False, semver),
        function("quantity", BYTES, [STRING], False, lambda text: f"q:{text}".encode()),
        function("compareTo", INT, [BYTES, BYTES], True, compare),
    ],
)


def as_cel(device: dict[str, Any]) -> dict[str, Any]:
    """What Kubernetes gives to the expression: an unknown domain is an empty map there."""
    attributes: dict[str, dict[str, Any]] = {DRIVER: {}, OTHER: {}}
    for name, typed in device["attributes"].items():
        domain, _, key = name.rpartition("/")
        ((kind, value),) = typed.items()
        if kind.startswith("version"):
            value = [semver(v) for v in value] if kind == "versions" else semver(value)
        attributes[domain or DRIVER][key] = value
    capacity: dict[str, dict[str, bytes]] = {DRIVER: {}, OTHER: {}}
    for name, entry in device["capacity"].items():
        domain, _, key = name.rpartition("/")
        capacity[domain or DRIVER][key] = f"q:{entry['value']}".encode()
    return {"device.driver": DRIVER, "device.attributes": attributes, "device.capacity": capacity}


def assert_same(spec: ResourceClassSpec, device: dict[str, Any]) -> bool:
    pool = {"name": "p"}
    slice_ = {"spec": {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": [{"name": "d", **device}]}}
    (ours,) = from_slice(msgspec.convert(slice_, ResourceSlice).spec)
    exported = export(spec)
    assert exported.findings == () or {f.reason for f in exported.findings} == {SELECTS_NOTHING}
    assert exported.expression is not None
    answer = compile_selector(spec.resource_selector).selects(ours)
    assert evaluated(exported.expression, device) is answer, exported.expression
    return answer


def evaluated(expression: str, device: dict[str, Any]) -> bool:
    answer = ENV.compile(expression).eval(data=as_cel(device))
    assert answer.type() == cel.Type.BOOL, f"{expression} fails: {answer.value()}"
    return bool(answer.value())


NUMBERS = ["8", "8.5", "-3", "30G", "28Gi", "1e3", "0.1n", "1n", "30GB", "8B", "40GBPS", "1e40", "-1e40"]
VERSIONS = ["8.6.0", "v8.6", "1.7.0-rc.1", "1.7.0", "v1.7.0-01+b5", "8"]
TEXTS = ["gpu", "true", "false", "", 'say "hi"', "back\\slash", "tab\tnew\nline", "snow ☃", DRIVER]
names = st.sampled_from(["size", "kind", "type", f"{OTHER}/size", f"{DRIVER}/size"])
keys = st.one_of(names, st.sampled_from(["Kind", "Type", "driver", "gone"]))
any_value = st.sampled_from([*NUMBERS, *VERSIONS, *TEXTS])
requirements = st.one_of(  # type: ignore[var-annotated]
    st.tuples(keys, st.sampled_from(["In", "NotIn"]), st.lists(any_value, min_size=1, max_size=3)),
    st.tuples(keys, st.just("Eq"), st.lists(any_value, min_size=1, max_size=1)),
    st.tuples(
        keys,
        st.sampled_from(["Gt", "GtEq", "Lt", "LtEq"]),
        st.sampled_from([*NUMBERS, *VERSIONS]).map(lambda v: [v]),
    ),
    st.tuples(keys, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
)
ints = st.sampled_from([8, 9, -3, 0, 1000, 30 * 10**9, 2**63 - 1, -(2**63)])
strings = st.sampled_from([*TEXTS, "8"])
strict = st.sampled_from(["8.6.0", "8.0.0", "1.7.0", "1.7.0-rc.1", "1.7.0-1"])
typed = st.one_of(
    ints.map(lambda v: {"int": v}),
    st.booleans().map(lambda v: {"bool": v}),
    strings.map(lambda v: {"string": v}),
    strict.map(lambda v: {"version": v}),
    st.lists(ints, min_size=1, max_size=2).map(lambda v: {"ints": v}),
    st.lists(st.booleans(), min_size=1, max_size=2).map(lambda v: {"bools": v}),
    st.lists(strings, min_size=1, max_size=2).map(lambda v: {"strings": v}),
    st.lists(strict, min_size=1, max_size=2).map(lambda v: {"versions": v}),
)
quantities = st.sampled_from(["8", "8500m", "30G", "28Gi", "1n", "2n", "1e3", "0", "-3"]).map(lambda v: {"value": v})
devices = st.fixed_dictionaries(
    {
        "attributes": st.dictionaries(names, typed, max_size=3).filter(
            lambda found: not {"size", f"{DRIVER}/size"} <= set(found)
        ),
        "capacity": st.dictionaries(st.sampled_from(["size", f"{OTHER}/size"]), quantities, max_size=2),
    }
)


@settings(max_examples=examples(200))
@given(st.lists(st.lists(requirements, min_size=1, max_size=2), max_size=2), devices)
def test_same_answers_on_random_devices(terms: list[list[tuple[str, str, list[str]]]], device: dict[str, Any]) -> None:
    assert_same(spec_of(*terms), device)


@settings(max_examples=examples(200))
@given(requirements, devices)
def test_same_answers_of_each_requirement(requirement: tuple[str, str, list[str]], device: dict[str, Any]) -> None:
    assert_same(spec_of([requirement]), device)


TYPED = [
    *({"int": v} for v in (8, 9, -3, -4, 1000, 2**63 - 1, -(2**63))),
    {"bool": True},
    *({"string": v} for v in ("8", "true", "gpu")),
    *({"version": v} for v in ("8.6.0", "8.0.0", "1.7.0", "1.7.0-1")),
    {"ints": [8, 9]},
    {"strings": ["gpu", "8"]},
    {"versions": ["8.6.0", "8.0.0"]},
]
OPERANDS = [
    "8",
    "8.5",
    "-3.5",
    "9e18",
    "1e40",
    "-1e40",
    "true",
    "gpu",
    "v8.6",
    "1.7.0-01",
    "9B",
    "1.5n",
    "2W",
]


@pytest.mark.parametrize("operator", ["In", "NotIn", "Eq", "Gt", "GtEq", "Lt", "LtEq"])
def test_same_answers_of_every_type_with_every_operand(operator: str) -> None:
    devices = [{"attributes": {"size": value}, "capacity": {}} for value in TYPED]
    devices += [{"attributes": {}, "capacity": {"size": {"value": v}}} for v in ("8", "9", "1n", "2n", "-3", "-4")]
    answers = set()
    for value in OPERANDS:
        spec = spec_of([("size", operator, [value])])
        if not compile_selector(spec.resource_selector).problems:
            answers |= {assert_same(spec, device) for device in devices}
    assert answers == {True, False}


HIGH_MEMORY = [("Kind", "In", ["nvidia-gpu"]), ("memory", "GtEq", ["30G"])]


@pytest.mark.parametrize(("memory", "selected"), [("80Gi", True), ("30G", True), ("28Gi", True), ("27Gi", False)])
def test_the_proposals_first_class(memory: str, selected: bool) -> None:
    device = {"attributes": {"kind": {"string": "nvidia-gpu"}}, "capacity": {"memory": {"value": memory}}}
    assert assert_same(spec_of(HIGH_MEMORY), device) is selected


def test_how_an_expression_reads() -> None:
    spec = spec_of([("driver", "Eq", [DRIVER]), ("memory", "GtEq", ["30GiB"])], [(f"{OTHER}/x", "Exists", [])])
    assert export(spec).expression == (
        '(device.driver in ["gpu.example.com"] && (!("memory" in device.attributes[device.driver]) && '
        '("memory" in device.capacity[device.driver] && '
        'cel.bind(q, device.capacity[device.driver]["memory"], q.compareTo(quantity("30Gi")) >= 0))) || '
        '("x" in device.attributes["other.example.com"] || "x" in device.capacity["other.example.com"]))'
    )


def test_what_cel_cannot_see_is_left_out_and_reported() -> None:
    spec = spec_of(
        [("node", "Eq", ["n1"])],
        [("Kind", "Eq", ["gpu"])],
        allowedNamespaces={"matchLabels": {"team": "a"}},
    )
    exported = export(spec)
    assert [(finding.path, finding.reason) for finding in exported.findings] == [
        ("allowedNamespaces", NOT_EXPORTED),
        ("resourceSelector[0].matchExpressions[0]", NOT_EXPORTED),
    ]
    assert exported.expression is not None
    assert "node" not in exported.expression
    assert export(spec_of([("pool", "Exists", [])])).expression is None


INVISIBLE = st.tuples(
    st.sampled_from(["node", "pool", "device"]),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from(["n", "p", "d", "x"]), min_size=1, max_size=2),
)
MEMBERS = st.lists(
    st.fixed_dictionaries({"class": st.sampled_from(["a", "b"]), "count": st.integers(1, 2)}), max_size=1
)


@settings(max_examples=examples(200))
@given(
    st.lists(st.lists(st.one_of(requirements, INVISIBLE), min_size=1, max_size=2), max_size=3),
    MEMBERS,
    devices,
    st.lists(devices, max_size=2),
)
def test_what_is_exported_never_selects_a_device_that_the_class_does_not(
    terms: list[list[tuple[str, str, list[str]]]],
    includes: list[dict[str, Any]],
    group: dict[str, Any],
    members: list[dict[str, Any]],
) -> None:
    """The device may be a group of others; what those can serve decides for a class that includes classes."""
    names = [f"m{i}" for i in range(len(members))]
    made_of = {"members": {"strings": names}} if members else {}
    attributes = {**group["attributes"], **made_of}
    published = [{"name": "d", **group, "attributes": attributes}]
    published += [{"name": name, **member} for name, member in zip(names, members, strict=True)]
    slice_ = {"spec": {"driver": DRIVER, "nodeName": "n", "pool": {"name": "p"}, "devices": published}}
    inventory = Inventory(from_slice(msgspec.convert(slice_, ResourceSlice).spec))
    spec = spec_of(*terms, includes=includes)
    classes = [
        class_of("tested", spec),
        *(class_of(n, spec_of([(k, "Exists", [])])) for n, k in (("a", "size"), ("b", "kind"))),
    ]
    selected = "tested" in ClassTable(classes).selections(inventory)[0]
    exported = export(spec)
    assert (exported.expression is None) <= any(f.reason == NOT_EXPORTED for f in exported.findings)
    if exported.expression is not None:
        theirs = evaluated(exported.expression, {**group, "attributes": attributes})
        assert theirs <= selected, exported.expression


def class_of(name: str, spec: ResourceClassSpec) -> ResourceClass:
    return ResourceClass(metadata=ObjectMeta(name=name), spec=spec)


def test_a_class_that_includes_others_is_not_exported() -> None:
    exported = export(spec_of([("Kind", "Eq", ["pair"])], includes=[{"class": "core", "count": 2}]))
    assert exported.expression is None
    assert [(finding.path, finding.reason) for finding in exported.findings] == [("includes", NOT_EXPORTED)]


def test_a_unit_that_no_driver_publishes_is_reported() -> None:
    exported = export(spec_of([("speed", "GtEq", ["40GBPS"])]))
    assert exported.expression == "false"
    assert [finding.reason for finding in exported.findings] == [SELECTS_NOTHING]


def test_a_fault_is_reported_and_selects_nothing() -> None:
    exported = export(spec_of([("memory", "GtEq", ["much"])], [("Kind", "Eq", ["gpu"])]))
    assert [finding.message for finding in exported.findings] == ["operand is neither a number nor a version: 'much'"]


def test_an_expression_that_kubernetes_would_not_take_is_reported() -> None:
    exported = export(spec_of([("Kind", "In", [f"gpu-{i}" for i in range(2000)])]))
    assert exported.expression is None
    assert str(MAX_EXPRESSION) in exported.findings[-1].message


def test_an_empty_class_selects_nothing() -> None:
    assert export(spec_of()).expression == "false"
    assert export(spec_of([])).expression == "false"
