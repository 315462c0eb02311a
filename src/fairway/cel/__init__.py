"""Expressions that users write in CEL, run so that none can do harm: with a budget, and an answer for every failure."""

from fairway.cel.program import MAX_COST, MAX_EXPRESSION, Environment, Evaluation, Program, shown

__all__ = ["MAX_COST", "MAX_EXPRESSION", "Environment", "Evaluation", "Program", "shown"]
