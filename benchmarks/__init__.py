"""Benchmarks: they print ratios measured in one run, for these machines are noisy. Never part of the tests."""
