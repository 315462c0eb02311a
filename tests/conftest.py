"""What holds for all tests: `support` is importable from every folder, and no property test looks at the clock.

Where a submission is checked (`CI` is set) the examples are the same in every run: a new example that fails there would
stop a change that has nothing to do with it. Everywhere else they are drawn anew.

A shell starts what runs in the background with SIGINT ignored, and programs inherit that: tests that press Ctrl-C would
wait forever.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("support")

settings.register_profile(
    "fairway",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fairway")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
