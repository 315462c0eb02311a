"""Placing a job: its next step, and strict order."""
