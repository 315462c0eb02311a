"""Resource lists: arithmetic, the nine comparisons on every row of the case table, and their laws."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairway.resources
from fairway.errors import QuantityError, ResourceUnderflow
from fairway.resources import COMPARISONS, INT64_MAX, Default, Resource

ROWS = json.loads((Path(__file__).parent.parent / "cases" / "resource-comparison.json").read_text())["cases"]

names = st.sampled_from(["cpu", "memory", "pods", "gpu", "nic"])
resources = st.dictionaries(names, st.integers(0, 4)).map(Resource.of)
large = st.dictionaries(names, st.integers(0, INT64_MAX)).map(Resource.of)
defaults = st.sampled_from(Default)


def ask(comparison: str, left: Resource, right: Resource, default: Default) -> bool:
    answer = getattr(left, comparison)(right, default)
    assert isinstance(answer, bool)
    return answer


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['left']}-{row['right']}-{row['default']}")
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_case_table(row: dict[str, Any], comparison: str) -> None:
    left, right = Resource.parse(row["left"]), Resource.parse(row["right"])
    default = Default(row["default"])
    assert ask(comparison, left, right, default) is row[comparison]
    assert left.compare(right, default).answer(comparison) is row[comparison]


def test_the_deciding_dimensions_are_those_on_the_side_of_the_answer() -> None:
    left = Resource.parse({"cpu": "1", "memory": "1G"})
    right = Resource.parse({"cpu": "2", "memory": "1G", "gpu": "2"})
    found = left.compare(right, Default.INFINITY)
    assert (found.below, found.same, found.above) == (("cpu",), ("memory",), ("gpu",))
    assert found.all_deciding() == {
        "less": ("gpu", "memory"),
        "less_equal": ("gpu",),
        "less_partly": ("cpu",),
        "less_equal_partly": ("cpu", "memory"),
        "equal": ("cpu", "gpu"),
        "greater": ("cpu", "memory"),
        "greater_equal": ("cpu",),
        "greater_partly": ("gpu",),
        "greater_equal_partly": ("gpu", "memory"),
    }
    with pytest.raises(ValueError, match="expected one of less, less_equal"):
        found.answer("lesser")


@given(resources, resources, defaults)
def test_all_nine_at_once_agree_with_one_by_one(left: Resource, right: Resource, default: Default) -> None:
    found = left.compare(right, default)
    assert found.answers() == {name: ask(name, left, right, default) for name in COMPARISONS}
    for deciding in found.all_deciding().values():
        assert set(deciding) <= {*left.names(), *right.names()}
        assert deciding or not {*left.names(), *right.names()}


@given(resources, resources, defaults)
def test_the_four_identities(left: Resource, right: Resource, default: Default) -> None:
    assert left.greater(right, default) is not left.less_equal_partly(right, default)
    assert left.greater_equal(right, default) is not left.less_partly(right, default)
    assert left.greater_partly(right, default) is not left.less_equal(right, default)
    assert left.greater_equal_partly(right, default) is not left.less(right, default)


@given(resources, resources, defaults)
def test_greater_is_less_seen_from_the_other_side(left: Resource, right: Resource, default: Default) -> None:
    for name in COMPARISONS:
        assert ask(name, left, right, default) is ask(
            name.replace("greater", "less"), *((right, left) if "greater" in name else (left, right)), default
        )


@given(resources, resources, defaults)
def test_antisymmetry_and_symmetry(left: Resource, right: Resource, default: Default) -> None:
    both = left.less_equal(right, default) and right.less_equal(left, default)
    assert both is left.equal(right, default) is right.equal(left, default)
    assert not (left.less(right, default) and right.less(left, default))


@given(resources, resources, resources, st.sampled_from(["less", "less_equal", "equal"]))
def test_transitivity_over_all_dimensions_with_zero(a: Resource, b: Resource, c: Resource, comparison: str) -> None:
    if ask(comparison, a, b, Default.ZERO) and ask(comparison, b, c, Default.ZERO):
        whole = Resource.of({name: 0 for r in (a, b, c) for name in r.names()})
        assert ask(comparison, whole + a, whole + c, Default.ZERO)


@given(st.tuples(*[st.lists(st.integers(0, 4), min_size=3, max_size=3)] * 3), defaults)
def test_transitivity_over_one_set_of_dimensions(rows: tuple[list[int], ...], default: Default) -> None:
    a, b, c = (Resource.of(dict(zip(("cpu", "gpu", "memory"), row, strict=True))) for row in rows)
    for comparison in ("less", "less_equal", "equal"):
        if ask(comparison, a, b, default) and ask(comparison, b, c, default):
            assert ask(comparison, a, c, default)


@given(large, large)
def test_the_default_matters_only_where_a_dimension_is_missing(left: Resource, right: Resource) -> None:
    shared = set(left.names()) & set(right.names())
    a, b = (Resource.of({name: r.get(name) for name in shared}) for r in (left, right))
    assert a.compare(b, Default.ZERO) == a.compare(b, Default.INFINITY)


@given(resources, resources)
def test_zero_as_default_is_the_same_as_writing_the_zero(left: Resource, right: Resource) -> None:
    zeros = Resource.of(dict.fromkeys((*left.names(), *right.names()), 0))
    for default in Default:
        assert left.compare(right, Default.ZERO) == (left + zeros).compare(right + zeros, default)


@given(resources, resources)
def test_add_and_subtract_are_inverse(left: Resource, right: Resource) -> None:
    total = left + right
    assert total == right + left
    assert (total - right).equal(left)
    assert (total - left).equal(right)
    assert total.subtract_saturating(right) == total - right


@given(resources, resources)
def test_subtract_names_the_dimension_or_stays_above_zero(left: Resource, right: Resource) -> None:
    short = [name for name in right.names() if right.get(name) > left.get(name)]
    saturated = left.subtract_saturating(right)
    assert all(saturated.get(n) == max(0, left.get(n) - right.get(n)) for n in saturated.names())
    if not short:
        assert left - right == saturated
        return
    with pytest.raises(ResourceUnderflow) as caught:
        left - right
    assert caught.value.dimension == short[0]


@given(resources, resources)
def test_difference_leads_from_one_to_the_other(left: Resource, right: Resource) -> None:
    grew, shrank = left.difference(right)
    assert (left + grew - shrank).equal(right)
    assert not set(grew.names()) & set(shrank.names())
    assert all([*grew.amounts.values(), *shrank.amounts.values()])


@given(resources, resources)
def test_minimum_and_maximum(left: Resource, right: Resource) -> None:
    least, most = left.minimum(right), left.maximum(right)
    assert least.less_equal(left)
    assert least.less_equal(right)
    assert left.less_equal(most)
    assert right.less_equal(most)
    assert (least + most) == left + right
    assert set(left.minimum(right, Default.INFINITY).names()) == {*left.names(), *right.names()}


def test_minimum_with_infinity_lets_the_other_side_stand() -> None:
    cap, wish = Resource.of({"cpu": 1000}), Resource.of({"cpu": 2000, "gpu": 3000})
    assert wish.minimum(cap, Default.INFINITY) == Resource.of({"cpu": 1000, "gpu": 3000})
    assert wish.minimum(cap) == Resource.of({"cpu": 1000, "gpu": 0})


def test_dominant_share() -> None:
    total = Resource.parse({"cpu": "10", "memory": "10Gi", "pods": "10", "gpu": "0"})
    held = Resource.parse({"cpu": "3", "memory": "4Gi", "pods": "9", "gpu": "1", "nic": "7"})
    assert held.dominant_share(total) == ("memory", Fraction(2, 5))
    assert Resource.parse({"cpu": "1", "memory": "1Gi"}).dominant_share(total) == ("cpu", Fraction(1, 10))
    assert Resource.parse({"pods": "1"}).dominant_share(total) == ("", Fraction(0))
    assert Resource.parse({"memory": "0"}).dominant_share(total) == ("memory", Fraction(0))


@given(large, large)
def test_dominant_share_is_the_largest_fraction(held: Resource, total: Resource) -> None:
    shares = [Fraction(held.get(n), total.get(n)) for n in held.names() if n != "pods" and total.get(n)]
    assert held.dominant_share(total)[1] == max(shares, default=0)


def test_scale_and_sum() -> None:
    one = Resource.parse({"cpu": "500m", "memory": "1Gi"})
    assert one.scale(3) == one + one + one == Resource.sum([one] * 3)
    assert one.scale(0).is_empty()
    assert Resource.sum([]) == Resource.EMPTY


@pytest.mark.parametrize(
    "make",
    [
        lambda: Resource.of({"cpu": -1}),
        lambda: Resource.of({"cpu": INT64_MAX + 1}),
        lambda: Resource.of({"cpu": INT64_MAX}) + Resource.of({"cpu": 1}),
        lambda: Resource.of({"cpu": INT64_MAX}).scale(2),
        lambda: Resource.of({"cpu": 1}).scale(-1),
    ],
)
def test_no_amount_is_negative_or_beyond_int64(make: Any) -> None:
    with pytest.raises(QuantityError, match="amount of cpu"):
        make()


def test_a_bad_quantity_names_its_resource() -> None:
    with pytest.raises(QuantityError, match="invalid quantity '1K': memory: unknown suffix"):
        Resource.parse({"cpu": 1, "memory": "1K"})


@given(large)
def test_parse_and_format_round_trip(resource: Resource) -> None:
    assert Resource.parse(resource.format()) == resource


def test_a_present_zero_is_not_a_missing_dimension() -> None:
    zero = Resource.parse({"gpu": 0})
    assert zero != Resource.EMPTY
    assert zero.equal(Resource.EMPTY)
    assert not zero.equal(Resource.EMPTY, Default.INFINITY)
    assert zero.is_empty()
    assert "gpu" in zero
    assert "gpu" not in Resource.EMPTY


def test_a_resource_is_a_value() -> None:
    first = Resource.of({"memory": 2, "cpu": 1})
    second = Resource.of({"cpu": 1, "memory": 2})
    assert first == second
    assert hash(first) == hash(second)
    assert list(first.amounts) == ["cpu", "memory"]
    assert pickle.loads(pickle.dumps(first)) == first
    assert repr(first) == "Resource(cpu=1m, memory=2)"
    with pytest.raises(TypeError):
        first.amounts["cpu"] = 5  # type: ignore[index]


def test_what_the_package_says_it_offers_is_there() -> None:
    assert all(hasattr(fairway.resources, name) for name in fairway.resources.__all__)
