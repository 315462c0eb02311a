"""A pod that says nothing of how it may be treated is known at a glance, and only such a pod."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.scheduling import PriorityClass
from fairway.clock import SECOND
from fairway.state import annotations as names
from fairway.state.annotations import AnnotationProblems, kept
from fairway.state.jobs import Traits
from fairway.state.reader import Priorities, TraitReader
from support import objects as make

NAMES = (names.COOLDOWN, names.EXPECTED_RUNTIME, names.TASK_ROLE, names.NEVER_EVICT, names.PREEMPTABLE, names.USER)
said = st.dictionaries(
    st.sampled_from((*NAMES, "other")), st.sampled_from(("true", "false", "90", "w", "")), max_size=3
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(0, 2),
        "priorityClassName": st.sampled_from(("", "high")),
        "activeDeadlineSeconds": st.integers(1, 9),
        "preemptionPolicy": st.sampled_from(("Never", "PreemptLowerPriority")),
    },
)


def slow_notes(pod: ApiObject) -> dict[str, str]:
    labels = {name: text for name, text in pod.metadata.labels.items() if name in names.AS_LABELS}
    return {**labels, **pod.metadata.annotations}


def slowly(pod: Pod) -> Traits:
    """Every name looked up, whatever the pod says."""
    notes = slow_notes(pod)
    spec, deadline = pod.spec, pod.spec.active_deadline_seconds
    return Traits(
        role=notes.get(names.TASK_ROLE, ""),
        preemptable=notes.get(names.NEVER_EVICT) != "true" and notes.get(names.PREEMPTABLE) != "false",
        preempts=spec.preemption_policy != "Never",
        priority_class=spec.priority_class_name,
        explicit_priority=spec.priority is not None,
        runtime=names.parse_runtime(notes.get(names.EXPECTED_RUNTIME, "")),
        deadline=None if deadline is None else deadline * SECOND,
        cooldown=names.parse_span(notes.get(names.COOLDOWN, "")) or 0,
    )


@given(said, said, specs)
def test_traits_are_those_that_a_slow_look_finds(
    annotations: dict[str, str], labels: dict[str, str], spec: dict[str, Any]
) -> None:
    pod = make.pod("p", cpu=1, annotations=annotations, labels=labels, spec=spec)
    assert isinstance(pod, Pod)
    assert TraitReader().of(pod) == slowly(pod)


@given(said, said)
def test_what_a_job_keeps_and_what_is_wrong_is_found_name_by_name(
    annotations: dict[str, str], labels: dict[str, str]
) -> None:
    pod = make.pod("p", cpu=1, annotations=annotations, labels=labels)
    notes = slow_notes(pod)
    assert kept(pod.metadata) == ({name: notes[name] for name in names.KEPT if name in notes} or None)
    problems = AnnotationProblems()
    problems.read("pod p", pod.metadata)
    wrong = sorted(name for name, text in notes.items() if name in names._RULES and not names._RULES[name].holds(text))
    assert [warning.split()[2] for warning in problems.warnings()] == wrong


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-2, 2), st.booleans(), st.booleans()), max_size=8))
def test_the_default_priority_follows_the_classes(events: list[tuple[str, int, bool, bool]]) -> None:
    priorities, classes = Priorities(), dict[str, tuple[int, bool]]()
    for name, value, default, gone in events:
        if gone:
            priorities.delete(name)
            classes.pop(name, None)
        else:
            made = make.priority_class(name, value, default=default)
            assert isinstance(made, PriorityClass)
            priorities.upsert(made)
            classes[name] = (value, default)
        assert priorities.value("") == max((value for value, default in classes.values() if default), default=0)
        assert all(priorities.value(name) == value for name, (value, _) in classes.items())
