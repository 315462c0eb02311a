"""The table of hooks holds together with the protocols and with what checks and combines external_plugins."""

import inspect

import pytest

from fairway.api.hooks import HOOKS, AnswerKind, Combination, OnFailure
from fairway.scheduler.framework import external_plugins, hooks
from fairway.scheduler.framework.plugin_set import COMBINERS
from fairway.scheduler.plugins import BUILT_IN

IN_COLUMNS = {Combination.EACH_PASSES, Combination.SUM, Combination.COMMON}
"""Combined where the nodes or the victims are looked at."""


def protocols():
    for protocol in vars(hooks).values():
        if isinstance(protocol, type) and getattr(protocol, "_is_protocol", False):
            yield from ((name, method) for name, method in vars(protocol).items() if callable(method))


def test_every_hook_has_a_protocol_with_the_arguments_of_the_table():
    declared = {
        name: ", ".join(method.__code__.co_varnames[1 : method.__code__.co_argcount])
        for name, method in protocols()
        if name[0] != "_"
    }
    assert declared == {hook.name: hook.given for hook in HOOKS.values()}


@pytest.mark.parametrize("hook", HOOKS.values(), ids=list(HOOKS))
def test_an_entry_is_complete(hook):
    assert not (hook.flag and hook.follows)
    assert not hook.follows or HOOKS[hook.follows].flag
    assert hook.combination in IN_COLUMNS | set(COMBINERS)
    assert callable(external_plugins.checker(hook.answer))
    if hook.failure is not OnFailure.ALL_HOOKS:
        assert (external_plugins.stand_in(hook) is None) == (hook.failure is OnFailure.DROPS_OUT)


def test_no_part_of_the_table_is_for_nothing():
    entries = HOOKS.values()
    assert {hook.answer for hook in entries} == {*AnswerKind}
    assert {hook.combination for hook in entries} == {*Combination}
    assert {hook.failure for hook in entries} == {*OnFailure}


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_built_in_plugin_has_no_public_method_but_hooks(name):
    public = {
        what for what, _ in inspect.getmembers(BUILT_IN[name], callable) if what[0] != "_" and what != "Arguments"
    }
    assert public <= set(HOOKS)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_built_in_plugin_declares_the_protocols_of_its_hooks_and_implements_them(name):
    """So mypy holds each signature to the protocol's. A protocol that is declared and not implemented would be worse
    than none: its empty method would be asked, and answer None.
    """
    plugin, by_hook = BUILT_IN[name], dict(protocols_by_hook())
    asked = {hook for hook in HOOKS if hasattr(plugin, hook)}
    assert asked
    assert {hook for hook in asked if by_hook[hook] not in plugin.__mro__} == set()
    assert {hook for hook in asked if getattr(plugin, hook) is vars(by_hook[hook])[hook]} == set()


def protocols_by_hook():
    for protocol in vars(hooks).values():
        if isinstance(protocol, type) and getattr(protocol, "_is_protocol", False):
            yield from ((name, protocol) for name in vars(protocol) if name in HOOKS)
