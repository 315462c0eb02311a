"""All benchmarks: `make bench`, or `python -m benchmarks [--quick]`.

Each runs in a process of its own, one after the other. Only ratios matter: they pair two things measured in the
same process, so they can be compared between machines. The targets are in docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.util import find_spec

CASES = {
    "single pods": (["--gang", "1"], 2.0),
    "gangs of 10": (["--gang", "10"], 0.8),
    "gangs of 100": (["--gang", "100"], 0.2),
    "elastic, 10 with minimum 1": (["--gang", "10", "--min-member", "1"], 2.5),
}
QUICK = ["--nodes", "1000", "--pods", "10000", "--repeat", "3"]

OTHERS = {
    "steady": "10000",
    "unschedulable": "10000",
    "antiaffinity": "500",
    "memory": "10000",
    "manifests": "2000",
    "fleet": "",
    "preempt": "",
    "devices": "",
    "simulation": "",
    "reports": "500",
    "live_cycles": "",
    "external": "500",
    "derived": "",
}
"""The other benchmarks, with the smaller size of each for `--quick`."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run all benchmarks.")
    parser.add_argument("--quick", action="store_true", help="small sizes: a minute, and ratios that say little")
    quick = parser.parse_args().quick
    _engine(quick)
    for name, small in OTHERS.items():
        if find_spec(f"benchmarks.{name}") is not None:
            print(f"\n{name}", flush=True)
            _python(f"benchmarks.{name}", *([small] if quick and small else []))


def _engine(quick: bool) -> None:
    size = "1,000 nodes, 10,000 pods" if quick else "10,000 nodes, 100,000 pods"
    print(f"engine: {size}, ratio to the baseline kernel per pod (wanted at 10,000 nodes)", flush=True)
    for score in ("binpack", "least"):
        for title, (options, wanted) in CASES.items():
            text = _python(
                *("benchmarks.measure", "--score", score, "-o", "json"),
                *options,
                *(QUICK if quick else []),
                capture=True,
            )
            found = json.loads(text)
            print(
                f"  {score:8} {title:27} {found['ratio']:5.2f} (at most {wanted}),"
                f" {found['decisions_per_second']:>8,} a second, {found['bytes_per_running_pod']} bytes a running pod",
                flush=True,
            )


def _python(module: str, *arguments: str, capture: bool = False) -> str:
    done = subprocess.run([sys.executable, "-m", module, *arguments], check=True, text=True, capture_output=capture)
    return done.stdout or ""


if __name__ == "__main__":
    main()
