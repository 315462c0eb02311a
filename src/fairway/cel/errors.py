"""What can go wrong while an expression is evaluated."""

from __future__ import annotations


class EvaluationError(Exception):
    """The expression has no value for this input. `&&` and `||` may not need that value."""


class BudgetError(Exception):
    """The evaluation was given up. Nothing in the expression can go on from here."""


class Budget:
    """How much one evaluation may still do. One unit is a step, or ten characters or two elements that are handled."""

    __slots__ = ("left",)

    def __init__(self, units: int) -> None:
        self.left = units

    def spend(self, units: int = 1) -> None:
        """Before it is done: nothing larger than what is left is ever made."""
        self.left -= units
        if self.left < 0:
            raise BudgetError("the evaluation costs too much")

    def spend_size(self, size: int) -> None:
        self.spend(1 + size // 10)
