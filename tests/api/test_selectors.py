from __future__ import annotations

import pytest

from fairway.api.meta import LabelSelector, LabelSelectorRequirement
from fairway.api.pods import matches

LABELS = {"app": "web", "tier": "front"}


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        (LabelSelector(), True),
        (LabelSelector(match_labels={"app": "web"}), True),
        (LabelSelector(match_labels={"app": "web", "tier": "back"}), False),
        (LabelSelector(match_labels={"zone": ""}), False),
        (expression("app", "In", "db", "web"), True),
        (expression("zone", "In", "a"), False),
        (expression("app", "NotIn", "web"), False),
        (expression("zone", "NotIn", "a"), True),
        (expression("app", "Exists"), True),
        (expression("zone", "Exists"), False),
        (expression("app", "DoesNotExist"), False),
        (expression("zone", "DoesNotExist"), True),
    ],
)
def test_matches(selector: LabelSelector | None, expected: bool) -> None:
    assert matches(selector, LABELS) is expected


def test_labels_and_expressions_are_both_needed() -> None:
    requirement = LabelSelectorRequirement("tier", "In", ("back",))
    assert not matches(LabelSelector({"app": "web"}, (requirement,)), LABELS)
