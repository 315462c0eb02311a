"""`make coverage`: the coverage of every package, and an error for a package below its floor.

    python -m tools.coverage_floors build/coverage.json

The packages with a floor hold the rules that decide; a change there needs a test. The others talk to terminals,
browsers and servers: most of their tests run in `make web-test` and `make kube-test`, or in processes of their own,
which are not measured here. A floor is a little below the measured value, so that it stops a decline and not every
refactoring. Raise it when the value has risen; never lower it to get a change through.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLOORS = {"resources": 99, "state": 91, "scheduler": 92, "devices": 95, "fleet": 98}
"""The minimum percentage of executed statements, by package."""


def by_package(report: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """The executed and all statements of each package, from the JSON report of coverage.py."""
    executed, total = Counter[str](), Counter[str]()
    for path, file in report["files"].items():
        parts = Path(path).parts
        package = parts[parts.index("fairway") + 1]
        if package.endswith(".py"):
            continue  # a module beside the packages
        executed[package] += file["summary"]["covered_lines"]
        total[package] += file["summary"]["num_statements"]
    return {package: (executed[package], total[package]) for package in sorted(total) if total[package]}


def below_floor(packages: Mapping[str, tuple[int, int]]) -> list[str]:
    """A sentence for each package below its floor. A package that was not measured is below it."""
    problems = []
    for package, floor in FLOORS.items():
        executed, total = packages.get(package, (0, 0))
        if 100 * executed < floor * total or not total:
            value = f"{100 * executed / total:.1f} %" if total else "nothing"
            problems.append(f"{package}: {value} of its statements ran, expected at least {floor} %")
    return problems


def main(path: str) -> None:
    packages = by_package(json.loads(Path(path).read_text()))
    print("package        coverage  floor")
    for package, (executed, total) in packages.items():
        floor = f"{FLOORS[package]:4} %" if package in FLOORS else ""
        print(f"{package:14} {100 * executed / total:6.1f} %  {floor}".rstrip())
    if problems := below_floor(packages):
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main(sys.argv[1])
