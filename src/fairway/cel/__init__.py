"""Expressions that users write in CEL, evaluated with a budget, and with a defined result for every failure."""

from fairway.cel.program import MAX_COST, MAX_EXPRESSION, Environment, Evaluation, Program, shown

__all__ = ["MAX_COST", "MAX_EXPRESSION", "Environment", "Evaluation", "Program", "shown"]
