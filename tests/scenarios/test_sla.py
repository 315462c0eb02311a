"""The plugin sla, as Volcano's users know it: a job may say how long it may wait."""

import pytest

from fairway.api.policy import parse_policy
from fairway.errors import PolicyError
from fairway.scheduler.plugins.installed import default_registry
from support.engine import bound, plan
from support.objects import gang, group, node

POLICY = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
  - {{name: sla{arguments}}}
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
"""


def read(arguments=""):
    return parse_policy(POLICY.format(arguments=arguments), "policy", default_registry().catalog)


def job(name, created, wait=None, key="sla-waiting-time"):
    _, *pods = gang(name, members=2, cpu=1)
    notes = {} if wait is None else {key: wait}
    return [group(name, minimum=2, created=created, annotations=notes), *pods]


def first(*jobs, arguments=""):
    found = plan(node("n", cpu=2), *jobs, policy=read(arguments))
    return {name.removeprefix("default/").rpartition("-")[0] for name in bound(found)}


@pytest.mark.parametrize("key", ["sla-waiting-time", "volcano.sh/sla-waiting-time"])
def test_the_earlier_deadline_goes_first(key):
    assert first(job("old", 0, "1h", key), job("new", 1, "30m", key)) == {"new"}
    assert first(job("old", 0, "30m", key), job("new", 1, "30m", key)) == {"old"}


def test_a_job_without_one_comes_last():
    assert first(job("old", 0), job("new", 1, "24h")) == {"new"}
    assert first(job("old", 0), job("new", 1)) == {"old"}


def test_the_argument_is_for_jobs_that_do_not_say_it():
    assert first(job("old", 0), job("new", 1, "30m"), arguments=", arguments: {sla-waiting-time: 1h}") == {"new"}
    assert first(job("old", 0), job("new", 1, "2h"), arguments=", arguments: {sla-waiting-time: 1h}") == {"old"}


def test_a_text_that_is_no_duration_is_an_error():
    with pytest.raises(PolicyError, match="sla-waiting-time"):
        read(", arguments: {sla-waiting-time: soon}")
    assert first(job("old", 0), job("new", 1, "soon")) == {"old"}
