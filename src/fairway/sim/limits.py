"""How large a simulation may be. A number in a file costs nothing; what is made of it costs memory and time.

Everything that a scenario, a trace or a flag counts is held against one of these before anything is made of it. They
are far above what the simulator is meant for, and far below what would exhaust a machine: a node costs about 1 KB, a
pod about 1.5 KB.
"""

from __future__ import annotations

from fairway.clock import Micros, parse_rfc3339

MAX_NODES = 200_000
"""Nodes of one cluster, including those that join later."""

MAX_TASKS = 100_000
"""Pods of one job."""

MAX_PODS = 500_000
"""Pods that exist at once, pending or running."""

MAX_JOBS = 10_000_000
"""Jobs of one template. They arrive one by one, so this limits time, not memory."""

MAX_RUNS = 10_000
"""Runs of one `diff` or `sweep`: combinations times seeds."""

MAX_SPAN: Micros = 2**53
"""Of any duration in a file, and of any time on a trace's own clock: 285 years."""

LAST_TIME: Micros = parse_rfc3339("8000-01-01T00:00:00Z")
"""A run ends before this: a timestamp can hold the years up to 9999."""

MIN_INTERVAL: Micros = 10_000
"""Between two fixed passes of the scheduler: 10 ms."""

MIN_MEAN_FAILURE: Micros = 1_000_000
"""Between two random failures, on average."""
