"""Declaring settings and registering actions and plugins, as a plugin's author does."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
import pytest

from fairway.api.arguments import FLAGS, Catalog
from fairway.api.policy import parse_policy
from fairway.api.settings import Arguments, Count, Seconds, Weight, setting, settings_of
from fairway.api.shape import did_you_mean
from fairway.errors import InputError
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plugins import BUILT_IN


class Example(Arguments, frozen=True):
    wait_for: Annotated[Seconds | None, setting("How long.", aliases=["wait.seconds"])] = None
    mode: Annotated[Literal["a", "b", "c"], setting("Which way.")] = "a"
    most: Annotated[Count, setting("At most.", unit="pods")] = 3
    weights: Annotated[Mapping[str, Weight], setting("By name.")] = {}
    names: Annotated[tuple[str, ...], setting("Some.")] = ()


def test_a_declaration_says_all_there_is_to_say():
    found = settings_of(Example)
    assert list(found) == ["waitFor", "mode", "most", "weights", "names"]
    assert {name: (s.default, s.unit, s.expected) for name, s in found.items()} == {
        "waitFor": (None, "s", "a whole number from 0 to 3153600000 or null"),
        "mode": ("a", "", "a, b or c"),
        "most": (3, "pods", "a whole number from 1 to 1000000"),
        "weights": ({}, "", "a map from name to whole number from 0 to 1000"),
        "names": ((), "", "a list of text"),
    }
    assert found["waitFor"].names == ("waitFor", "wait.seconds")


def test_a_setting_without_meaning_or_default_is_refused_when_registered():
    class NoMeaning(Arguments, frozen=True):
        size: int = 1

    class NoDefault(Arguments, frozen=True):
        size: Annotated[int, setting("How large.")]

    with pytest.raises(TypeError, match=r"NoMeaning.size has no meaning"):
        Catalog().register_plugin("x", NoMeaning, "An example.")
    with pytest.raises(TypeError, match=r"NoDefault.size has no default"):
        Catalog().register_action("x", NoDefault, "An example.")


def test_a_registered_plugin_is_used_as_the_built_in_ones():
    catalog = Registry(BUILT_IN).catalog
    catalog.register_plugin("example", Example, "An example.", ["score"])
    policy = parse_policy("tiers: [{plugins: [{name: example, arguments: {waitFor: 5}}]}]", "p", catalog)
    assert policy.plugin("example").arguments == Example(wait_for=5)
    assert catalog.plugins["example"].flags == ("enableNodeOrder",)
    assert "example" not in Registry(BUILT_IN).catalog.plugins


def test_registering_twice_or_with_an_unknown_hook_is_an_error():
    catalog = Registry(BUILT_IN).catalog
    with pytest.raises(InputError, match="the plugin 'gang' is registered twice"):
        catalog.register_plugin("gang", Arguments, "Another.")
    with pytest.raises(InputError, match="unknown hook 'scores', did you mean 'score'"):
        catalog.register_plugin("other", Arguments, "Another.", ["scores"])


def test_arguments_cannot_be_changed():
    with pytest.raises(AttributeError):
        Example().mode = "b"  # type: ignore[misc]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"wait_for": 1}, Example)


def test_every_hook_has_one_flag():
    assert len(set(FLAGS.values())) == len(FLAGS) == 15


def test_did_you_mean():
    assert did_you_mean("GANG", ["gang", "drf"]) == ", did you mean 'gang'?"
    assert did_you_mean("zzz", ["b", "a"]) == ", expected one of a, b"
