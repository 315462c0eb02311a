"""What a live scheduler sees, one row for each target: `python -m benchmarks.live_cycles [--only ROW]`.

Every figure is a ratio of processor times that were measured in turns in one process, or a rate. Each row runs in a
process of its own, so that none sees the memory of another.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module

ROWS = {
    "tenants": "tenants.small_cycles",
    "stream": "tenants.stream",
    "hopeless": "hopeless.distinct",
    "elastic": "hopeless.elastic",
    "actions": "hopeless.every_action",
    "trees": "trees.trees",
    "distinct": "shapes.distinct_requests",
    "claims": "hopeless.claims",
    "volumes": "volumes.volumes",
    "easy": "rules.easy",
    "reservations": "rules.reservations",
    "ports": "rules.ports",
    "spread": "rules.spread",
    "reading": "reading.reading",
    "hostile": "hostile.hostile",
}
"""Functions by name of the row."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_cycles", description="Run rows of the table.")
    parser.add_argument("--only", choices=[*ROWS], action="append", help="this row; may be given several times")
    chosen = parser.parse_args().only or [*ROWS]
    if len(chosen) == 1:
        module, _, function = ROWS[chosen[0]].partition(".")
        getattr(import_module(f"benchmarks.live.{module}"), function)()
        return
    for row in chosen:
        print(row, flush=True)
        subprocess.run([sys.executable, "-m", "benchmarks.live_cycles", "--only", row], check=True)


if __name__ == "__main__":
    main()
