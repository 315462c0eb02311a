"""Benchmarks of `fairway run` on a real API server."""
