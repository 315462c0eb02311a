"""Capacity that is kept for waiting jobs: reservations for starving jobs, and nominations."""
