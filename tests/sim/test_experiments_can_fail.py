"""An experiment states what it expects: the command fails when that is not so, and takes what it is asked to run."""

from __future__ import annotations

import pytest
from experiments import __main__ as command
from experiments.expectation import Expectation, at_most, exactly


@pytest.mark.parametrize("name", sorted(command.EXPERIMENTS))
@pytest.mark.parametrize("met", [True, False])
def test_each_experiment_can_fail(
    name: str, met: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Expectation("one", "1", "1", True), Expectation("other", "2", "3", met)]
    monkeypatch.setitem(command.EXPERIMENTS, name, lambda _: found)
    assert command.main([name]) == (0 if met else 1)
    assert ("NOT MET" in capsys.readouterr().out) is not met


def test_seeds_and_workloads_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[command.Options] = []

    def experiment(options: command.Options) -> list[Expectation]:
        asked.append(options)
        return []

    monkeypatch.setitem(command.EXPERIMENTS, "e3", experiment)
    assert command.main(["e3", "--seeds", "2", "--workloads", "default,cpu100"]) == 0
    assert (asked[0].seeds, list(asked[0].workloads)) == (2, ["default", "cpu100"])


@pytest.mark.parametrize(
    "arguments", [["e9"], ["speed"], ["e3", "--workloads", "nope"], ["e3", "--seeds", "0"], ["e3", "--seeds", "x"]]
)
def test_what_is_not_there_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2


def test_expectations_say_what_was_found() -> None:
    assert at_most("x", 2.5, 2, " %") == Expectation("x", "at most 2 %", "2.5 %", False)
    assert exactly("x", 3, 3).met
