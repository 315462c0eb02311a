"""Wiring: the long-running programs, and what asks `decide` more than once to answer one question."""
