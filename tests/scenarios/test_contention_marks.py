"""Marks on objects that decide who starves, who is evicted and what is reserved: what they may say, and what is said
where they cannot be read."""

import pytest

from support import objects as make
from support.contention import DAY, annotated, evicted, plan, preempting, reserving, running, running_gang, waiting

POLICY = preempting()
PREEMPTABLE = "volcano.sh/preemptable"


def marked(thing, name: str, text: str):
    """The object with an annotation of any name."""
    thing.metadata.annotations[name] = text
    return thing


def contended(*others):
    return [make.node("n1", cpu=1), *others, waiting("high", priority=9, cpu=1, created=DAY - 10)]


@pytest.mark.parametrize(("name", "text"), [("fairway.dev/never-evict", "true"), (PREEMPTABLE, "false")])
def test_a_group_that_says_so_is_never_evicted(name, text):
    group, *pods = running_gang("low", ["n1"], cpu=1)
    assert evicted(plan(contended(group, *pods), policy=POLICY)) == ["low-0"]
    assert evicted(plan(contended(marked(group, name, text), *pods), policy=POLICY)) == []


@pytest.mark.parametrize("name", ["fairway.dev/never-evict", PREEMPTABLE])
@pytest.mark.parametrize("text", ["yes", "True", "", "0"])
def test_a_mark_that_is_neither_true_nor_false_protects_no_pod_and_is_reported(name, text):
    found = plan(contended(marked(running("low", "n1", cpu=1), name, text)), policy=POLICY)
    assert evicted(found) == ["low"]
    assert found.warnings == (f"pod default/low: {name} {text!r} protects no pod, expected 'true' or 'false'",)


def test_a_queue_is_reported_by_its_name_until_it_is_right_or_gone():
    queue = annotated(make.queue("q"), never_evict="on")
    found = plan(contended(queue), policy=POLICY)
    assert found.warnings == ("queue q: fairway.dev/never-evict 'on' protects no pod, expected 'true' or 'false'",)
    assert plan(contended(annotated(queue, never_evict="false")), policy=POLICY).warnings == ()


@pytest.mark.parametrize("text", ["soon", "-5", "1e3", ""])
def test_a_threshold_that_is_no_time_leaves_that_of_the_policy(text):
    pod = annotated(waiting("big", cpu=2, created=0), starving_after=text)
    busy = [make.node("n1", cpu=2), running("low", "n1", cpu=1)]
    found = plan(busy, pod, policy=reserving())
    assert [entry.pod for entry in found.reservations] == ["default/big"]
    (warning,) = found.warnings
    assert warning == (
        f"pod default/big: fairway.dev/starving-after {text!r} is not a valid duration: the threshold of the "
        "policy applies, expected seconds (90, 1.5) or units (1h30m), a century at most"
    )
