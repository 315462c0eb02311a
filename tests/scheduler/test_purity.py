"""`decide` leaves the process as it was."""

import gc

import pytest

from fairway.scheduler.decide import decide_and_explain
from support import objects as make
from support.cli import run_plan
from support.engine import policy, state_of


@pytest.mark.parametrize("enabled", [True, False])
def test_a_cycle_does_not_touch_the_garbage_collector(enabled, monkeypatch):
    touched: list[str] = []
    for name in ("enable", "disable", "freeze", "unfreeze", "collect", "set_threshold"):
        monkeypatch.setattr(gc, name, lambda *_, name=name: touched.append(name))
    monkeypatch.setattr(gc, "isenabled", lambda: enabled)
    decide_and_explain(state_of(make.node("n", cpu=2), make.pods("p", 3, cpu=1)), policy(), make.NOW)
    assert touched == []


def test_a_command_freezes_what_it_has_loaded_and_lets_go_at_its_end(tmp_path, monkeypatch):
    frozen: list[int] = []
    freeze = gc.freeze
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(freeze() or gc.get_freeze_count()))
    run_plan([make.node("n", cpu=2), make.pod("p", cpu=1)], tmp_path)
    assert len(frozen) == 1
    assert frozen[0] > 1000
    assert gc.get_freeze_count() < frozen[0]
