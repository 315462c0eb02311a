"""The mechanism of what is kept between cycles: what is declared, that nothing else is kept, and how it is switched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairway.errors import InputError, InvariantError
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.paranoid import check_plan
from fairway.state.cluster import Deleted, Upserted
from fairway.state.derived import REGISTRY, DerivedValue, switched_off
from fairway.state.snapshot import Snapshot, snapshot_of
from support import objects as make
from support.effort import dice, examples
from support.engine import policy as make_policy
from support.engine import state_of
from support.twins import Twins
from support.whole_state import contents

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MADE_WHEN_READ = re.compile(
    r"state\.(nodes\.labels\._(codes|columns|unique)\b"  # columns of label keys that a shape asked for first
    r"|waiting\.ages\._?(cutoff|heap|old)\b"  # where the line runs between old and young jobs: it follows the clock
    r"|(compaction\._)?cycles$"  # when the state was last tidied up
    r"|nodes\.\w+\.data$)"  # tables reach to the end of the axis before they are read
)
"""Indexes of the state's own tables that are filled in when they are read; `invariants.check` covers them."""


def changed_by_a_cycle(twins: Twins) -> list[str]:
    state = twins.kept
    state.refresh()
    before = contents(state, without={"state.derived"})
    run = decide_and_explain if twins.random.random() < 0.5 else decide
    run(state, twins.policy, twins.now)
    after = contents(state, without={"state.derived"})
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def test_a_cycle_keeps_nothing_but_derived_values() -> None:
    for number in range(examples(8)):
        twins = Twins(dice("whole state", number), "")
        for _ in range(3):
            # Devices are written as dimensions of nodes when the first cycle reads them: from then on nothing changes.
            twins.cycle()
            assert [path for path in changed_by_a_cycle(twins) if not MADE_WHEN_READ.match(path)] == []
            twins.happen()


def rows_of_the_page() -> dict[str, list[str]]:
    section = PAGE.read_text().split("## What is kept between cycles")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip().strip("`"): [cell.strip() for cell in row[1:]] for row in rows}


def test_the_page_has_the_declaration_of_each_value() -> None:
    rows = rows_of_the_page()
    assert list(rows) == sorted(REGISTRY)
    for name, declared in REGISTRY.items():
        holds, inputs, saves, measured = rows[name]
        assert (holds, inputs, saves) == (declared.holds, ", ".join(declared.inputs), declared.saves), name
        assert measured, f"{name}: `python -m benchmarks.derived` measures what it saves"


def test_what_rests_on_a_value_goes_with_it() -> None:
    assert switched_off("") == frozenset()
    assert switched_off("off") == frozenset(REGISTRY)
    assert switched_off("-victims") == {"victims"}
    assert {"snapshot", "columns", "parking", "standing-reservations"} <= switched_off("-snapshot")
    assert REGISTRY.keys() - switched_off("queue-totals,shares") == {"queue-totals", "shares"}
    with pytest.raises(InputError, match="FAIRWAY_DERIVED: 'colums' is none of off, columns, devices"):
        switched_off("-colums")


def test_the_variable_is_read_by_the_first_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_DERIVED", "-snapshot")
    state = state_of(make.node("n", cpu=1), make.pod("p", cpu=1))
    decide(state, make_policy(), make.NOW)
    first = state.derived.kept(Snapshot)
    decide(state, make_policy(), make.NOW)
    assert "snapshot" in state.derived.off
    assert first is not state.derived.kept(Snapshot)


def test_a_value_that_missed_a_change_is_found_by_deciding_again() -> None:
    policy, pod = make_policy(), make.pod("p", cpu=4)
    state = state_of(make.node("n", cpu=8), pod)
    snapshot_of(state).idle[0, state.nodes.rows["n"]] = 0
    plan = decide(state, policy, make.NOW)
    with pytest.raises(InvariantError, match=r"bindings of the plan: .* with derived values"):
        check_plan(plan, state, policy, make.NOW)


def test_what_is_set_aside_comes_back_unless_rows_were_assigned_anew() -> None:
    state = state_of(make.node("n", cpu=1))
    kept = snapshot_of(state)
    with state.derived.aside():
        assert snapshot_of(state) is not kept
    assert snapshot_of(state) is kept
    with state.derived.aside():
        state.compaction.run()
    assert snapshot_of(state) is not kept


def test_a_name_is_declared_once() -> None:
    with pytest.raises(AssertionError, match="snapshot"):

        class Again(DerivedValue, name="snapshot", holds="", inputs=(), saves=""):
            pass


def test_a_value_is_updated_from_its_logs_and_rebuilt_where_they_do_not_reach() -> None:
    calls: list[str] = []
    state = state_of(make.node("n", cpu=1))
    state.refresh()

    class Rows(DerivedValue, name="rows-of-the-test", holds="", inputs=(), saves=""):
        size = 0

        def generations(self) -> tuple[object, ...]:
            return (self.size,)

        def rebuild(self) -> None:
            calls.append("rebuild")

        def update(self, rows: list[int]) -> None:
            calls.append(f"update {len(rows)}")

    try:
        value = Rows(state.nodes.changed)
        value.sync()
        value.sync()
        node = make.node("n", cpu=2)
        state.apply(Upserted(node))
        value.sync()
        value.size = 1
        value.sync()
        value.stale()
        value.sync()
        state.apply(Deleted(node))
        value.sync()
    finally:
        del REGISTRY["rows-of-the-test"]
    assert [call.split()[0] for call in calls] == ["rebuild", "update", "rebuild", "rebuild", "update"]
