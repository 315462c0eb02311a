"""The flags that the policy reference lists for a plugin are those that switch a hook of it off."""

import pytest

from fairway.api.arguments import FLAGS
from fairway.api.hooks import HOOKS
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plugins import BUILT_IN
from fairway.scheduler.plugins.installed import default_registry

REGISTRY = default_registry()


@pytest.mark.parametrize("name", sorted(REGISTRY.catalog.plugins))
def test_every_flag_listed_has_an_effect_and_no_other_has(name):
    plugin = REGISTRY.plugin_class(name)
    hooks = {hook.switch for hook in HOOKS.values() if hasattr(plugin, hook.name)} & set(FLAGS.values())
    assert set(REGISTRY.catalog.plugins[name].hooks) == hooks


def test_the_flag_of_a_hook_without_one_of_its_own_has_an_effect_on_an_external_plugin():
    plugin = type("Odd", (), {"name": "odd", "score_static": lambda self, shape, nodes: None})
    assert Registry(BUILT_IN, [plugin]).catalog.plugins["odd"].flags == ("enableNodeOrder",)
