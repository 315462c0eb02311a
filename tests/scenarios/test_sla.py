"""The plugin sla, as Volcano's users know it: a job may say how long it may wait."""

import pytest

from fairway.api.policy import parse_policy
from fairway.clock import SECOND
from fairway.errors import PolicyError
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plugins.installed import default_registry
from support.engine import bound, plan, state_of
from support.objects import BEGIN, gang, group, node

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


def test_enqueue_admits_a_job_whose_time_has_come_however_large_it_is():
    """Twice the cluster: the factor would keep it out for ever."""

    def phase(wait, seconds):
        things = group("large", minimum=8, created=0, resources={"cpu": 8}, annotations={"sla-waiting-time": wait})
        (status,) = decide_at(seconds, node("n", cpu=2), things).status.pod_groups
        return status.phase

    assert phase("3s", 2) == "Pending"
    assert phase("3s", 4) == "Inqueue"
    assert phase("1h", 4) == "Pending"


def decide_at(seconds, *objects):
    return decide_and_explain(state_of(*objects), read(), BEGIN + seconds * SECOND)
