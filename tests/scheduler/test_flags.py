"""The flags that the policy reference lists for a plugin are those that switch a hook of it off."""

import pytest

from fairway.api.catalog import FLAGS
from fairway.scheduler.framework.registry import default_registry

REGISTRY = default_registry()
ENTITLE = ("drf", "priority")
"""Their say at preempt is a step of the one comparison that entitles."""

ALSO = {
    "feasible": "feasible_static",
    "score": "score_static",
    "preemptable": "preemptable_units",
    "reclaimable": "reclaimable_units",
}


@pytest.mark.parametrize("name", sorted(REGISTRY.catalog.plugins))
def test_every_flag_listed_has_an_effect_and_no_other_has(name):
    plugin = REGISTRY.plugin_class(name)
    hooks = {hook for hook in FLAGS.values() if hasattr(plugin, hook) or hasattr(plugin, ALSO.get(hook, hook))}
    hooks |= {"preemptable"} if name in ENTITLE else set()
    assert set(REGISTRY.catalog.plugins[name].hooks) == hooks
