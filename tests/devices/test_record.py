"""The annotation that records a choice: written, read back, refused where Kubernetes has no room for it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.devices.track.record import PREFIX, DeviceUse, escaped, key_of, read, unescaped, written
from support.effort import examples

KEY = re.compile(r"scheduler\.alpha\.kubernetes\.io/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)


def test_the_proposals_own_example() -> None:
    entries = (DeviceUse("test-res-class", "nvidia-tesla-gpu", 4000),)
    annotations = {"scheduler.alpha.kubernetes.io/resClass_test-res-class_nvidia-tesla-gpu": "4"}
    assert written(entries) == annotations
    assert read(annotations) == entries


def test_a_device_name_with_underscores_comes_back() -> None:
    entries = (DeviceUse("c", "nvidia_tesla_0", 1000), DeviceUse("nvidia.high.mem", "_", 500))
    assert read(written(entries)) == entries
    assert f"{PREFIX}c_nvidia_tesla_0" in written(entries)


def test_a_fraction_is_a_quantity() -> None:
    assert list(written([DeviceUse("c", "d", 500)]).values()) == ["500m"]
    assert list(written([DeviceUse("c", "d", 500), DeviceUse("c", "d", 500)]).values()) == ["1"]


def test_a_key_that_is_too_long_is_none() -> None:
    room = 63 - len("resClass_c_")
    assert key_of("c", "d" * room) is not None
    assert key_of("c", "d" * (room + 1)) is None
    assert key_of("c", "/" * room) is None, "an escaped character takes more"


LONG = DeviceUse("c", "d" * 80, 2000)


def test_a_long_name_is_written_as_its_hash_with_the_name_beside_it() -> None:
    notes = written([LONG, LONG, DeviceUse("c", "short", 1000)])
    assert sorted(notes.values()) == ["1", "4", "c_" + "d" * 80]
    assert all(KEY.fullmatch(key) and len(key.split("/")[1]) <= 63 for key in notes)
    assert read(notes) == (DeviceUse("c", "d" * 80, 4000), DeviceUse("c", "short", 1000))


def test_a_hash_without_its_name_or_with_another_is_no_record() -> None:
    notes = written([LONG])
    name_key = next(key for key, text in notes.items() if text.startswith("c_"))
    assert read({key: text for key, text in notes.items() if key != name_key}) == ()
    assert read(notes | {name_key: "c_other"}) == ()
    assert read({name_key: notes[name_key]}) == ()


@pytest.mark.parametrize("text", ["", "-1", "0", "x", "1n", "NaN"])
def test_a_malformed_record_is_none(text: str) -> None:
    assert read({f"{PREFIX}c_d": text}) == ()


@pytest.mark.parametrize("key", [f"{PREFIX}c", f"{PREFIX}_d", f"{PREFIX}c_", "other/resClass_c_d", PREFIX])
def test_other_annotations_are_no_record(key: str) -> None:
    assert read({key: "1"}) == ()


AWKWARD = st.text(st.sampled_from("_x2f/5a .-é") | st.characters(exclude_categories=["Cs"]), min_size=1)


@given(AWKWARD)
def test_any_name_comes_back(name: str) -> None:
    assert unescaped(escaped(name)) == name
    key = key_of("c", name)
    assert key is None or KEY.fullmatch(key)


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.from_regex(r"[a-z][a-z0-9.-]{0,70}", fullmatch=True), AWKWARD, st.integers(1, 10**6))))
def test_whatever_is_held_comes_back(holdings: list[tuple[str, str, int]]) -> None:
    entries = {(name, device): DeviceUse(name, device, milli) for name, device, milli in holdings}
    assert read(written(entries.values())) == tuple(sorted(entries.values()))


@given(st.sets(AWKWARD))
def test_different_names_have_different_keys(names: set[str]) -> None:
    assert len({escaped(name) for name in names}) == len(names)
