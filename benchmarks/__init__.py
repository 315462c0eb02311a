"""Benchmarks. They print ratios measured within one run, because machines are noisy. Not part of the tests."""
