"""Do the tests notice when the code is wrong? Break it in many small ways, one at a time, and count.

    python -m tools.mutants --count 300 --seed 1 [--jobs 2] [--only scheduler] [--report FILE]

1. One run of the test suite under coverage tells which tests reach which line (kept in `.mutants/`, made again when
   a source or a test changed).
2. A sample of mutants is drawn, evenly over the packages: a comparison reversed, a constant off by one, a
   condition negated, `and` for `or`, a sum for a difference, a statement left out.
3. Each is written to a copy of the tree, and tests that reach its line are run there, from as many files as possible
   and the quickest first, until one fails. A mutant that no test notices *survives*: either a test is missing, or the
   code is not needed.

A survivor is a place to look, not a verdict: some mutants mean the same as the code (an order that does not matter,
a limit that is only about speed).
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fairway"
KEPT = ROOT / ".mutants"
PACKAGES = ("resources", "state", "scheduler", "devices", "fleet")
MAX_TESTS = 150
"""Maximum number of tests run for one mutant: the quickest of each file, then the next of each."""

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    path: Path
    line: int
    what: str
    text: str
    """The whole module, mutated."""
    shown: str
    """The changed lines, after the change."""

    @property
    def where(self) -> str:
        return str(self.path.relative_to(ROOT))


def _mutate(node: ast.AST, variant: int) -> str:
    """Change a node in place; "" if there is nothing to change in this variant."""
    match node:
        case ast.Compare(ops=[op]) if variant == 0 and type(op) in _COMPARE:
            node.ops = [_COMPARE[type(op)]()]
            return f"{type(op).__name__} became {type(node.ops[0]).__name__}"
        case ast.BinOp(op=operator) if variant == 0 and type(operator) in _BINARY:
            node.op = _BINARY[type(operator)]()
            return f"{type(operator).__name__} became {type(node.op).__name__}"
        case ast.BoolOp(op=joint) if variant == 0:
            node.op = ast.Or() if isinstance(joint, ast.And) else ast.And()
            return f"{type(joint).__name__} became {type(node.op).__name__}"
        case ast.UnaryOp(op=ast.Not()) if variant == 0:
            node.op = ast.UAdd()
            return _negation_left_out(node)
        case ast.Constant(value=bool(value)) if variant == 0:
            node.value = not value
            return f"{value} became {not value}"
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            node.value = value + (1 if variant == 0 else -1)
            return f"{value} became {node.value}"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if variant == 0:
            node.test = ast.UnaryOp(ast.Not(), test)
            return "a condition was negated"
        case ast.Expr(value=ast.Call()) if variant == 0:
            node.value = ast.Constant(None)
            return "a call was left out"
        case ast.AugAssign() if variant == 0:
            node.value = ast.Constant(0)
            return "an update by nothing"
    return ""


def _negation_left_out(node: ast.UnaryOp) -> str:
    node.op = ast.Not()
    node.operand = ast.UnaryOp(ast.Not(), node.operand)
    return "not was left out"


# -- which tests reach which line ------------------------------------------------------------------------------


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for folder in (SOURCE, ROOT / "tests"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Reach:
    """Tests by module and line, and how long each takes."""

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, path: Path, line: int, known: set[str]) -> list[str]:
        found = known.intersection(self.tests.get(str(path.relative_to(ROOT)), {}).get(line, []))
        turns: Counter[str] = Counter()
        ordered = []
        for test in sorted(found, key=lambda test: (self.seconds.get(test, 0.0), test)):
            file = test.partition("::")[0]
            ordered.append((turns[file], self.seconds.get(test, 0.0), test))
            turns[file] += 1
        return [test for *_, test in sorted(ordered)[:MAX_TESTS]]


def reach(jobs: int, tests_in: list[str]) -> Reach:
    """Read the cache, or run the whole suite once."""
    kept = KEPT / "reach.json"
    fingerprint = _fingerprint() + " ".join(tests_in)
    if kept.exists():
        known = json.loads(kept.read_text())
        if known["fingerprint"] == fingerprint:
            tests = {
                path: {int(line): names for line, names in lines.items()} for path, lines in known["tests"].items()
            }
            return Reach(tests, known["seconds"])
    print("running the tests once under coverage", file=sys.stderr)
    found = _measure(jobs, tests_in)
    KEPT.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"fingerprint": fingerprint, "tests": found.tests, "seconds": found.seconds}))
    return found


def _measure(jobs: int, tests_in: list[str]) -> Reach:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "coveragerc"
        settings.write_text(f"[run]\nsource = {SOURCE}\ndata_file = {folder}/data\nparallel = true\nsigterm = true\n")
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "-p", "no:cacheprovider"]
        command += [f"--cov={SOURCE}", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
        command += [f"--junitxml={folder}/times.xml", "-o", "junit_duration_report=call", *tests_in]
        subprocess.run(command, cwd=ROOT, env=_environment(ROOT), stdout=sys.stderr, check=False)
        return Reach(_contexts(Path(folder)), _durations(Path(folder) / "times.xml"))


def collected(tests_in: list[str]) -> set[str]:
    """The tests as pytest knows them. One that it does not find looks like a module that cannot be loaded."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *tests_in]
    run = subprocess.run(command, cwd=ROOT, env=_environment(ROOT), capture_output=True, text=True, check=True)
    return {line for line in run.stdout.splitlines() if "::" in line}


def _contexts(folder: Path) -> dict[str, dict[int, list[str]]]:
    from coverage import CoverageData

    tests: dict[str, dict[int, list[str]]] = {}
    for path in sorted(folder.glob("data*")):
        data = CoverageData(str(path))
        data.read()
        for file in data.measured_files():
            lines = tests.setdefault(str(Path(file).relative_to(ROOT)), {})
            for line, contexts in data.contexts_by_lineno(file).items():
                names = {context.rsplit("|", 1)[0] for context in contexts if context}
                lines[line] = sorted(names.union(lines.get(line, ())))
    return tests


def _durations(path: Path) -> dict[str, float]:
    from xml.etree import ElementTree

    seconds: dict[str, float] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        names = case.get("classname", "").split(".")
        while names and not (ROOT / Path(*names)).with_suffix(".py").exists():
            names, rest = names[:-1], names[-1:]
            case.set("name", "::".join([*rest, case.get("name", "")]))
        file = str(Path(*names).with_suffix(".py")) if names else ""
        seconds[f"{file}::{case.get('name')}"] = float(case.get("time", 0))
    return seconds


# -- running mutants -------------------------------------------------------------------------------------------


def sample(count: int, seed: int, only: str, found: Reach) -> list[Mutant]:
    """Equally many from each package, from lines that a test reaches, at most one per line."""
    dice = random.Random(seed)
    packages = [name for name in PACKAGES if not only or name == only]
    chosen: list[Mutant] = []
    for number, package in enumerate(packages):
        share = count * (number + 1) // len(packages) - count * number // len(packages)
        paths = sorted((SOURCE / package).rglob("*.py"))
        lines = [(path, line) for path in paths for line in sorted(found.tests.get(str(path.relative_to(ROOT)), {}))]
        dice.shuffle(lines)
        taken = 0
        for path, line in lines:
            if taken == share:
                break
            mutant = _one_of(path, line, dice)
            if mutant is not None:
                chosen.append(mutant)
                taken += 1
    return chosen


def _one_of(path: Path, line: int, dice: random.Random) -> Mutant | None:
    tree = ast.parse(path.read_text())
    before = set(ast.unparse(tree).splitlines())
    silent = {node for part in _silent(tree) for node in ast.walk(part)}
    places = [node for node in ast.walk(tree) if getattr(node, "lineno", None) == line and node not in silent]
    options = [(node, variant) for node in places for variant in range(2) if _mutate(copy.copy(node), variant)]
    if not options:
        return None
    node, variant = dice.choice(options)
    what = _mutate(node, variant)
    text = ast.unparse(ast.fix_missing_locations(tree))
    shown = " / ".join(part.strip() for part in text.splitlines() if part not in before)
    return Mutant(path, line, what, text, shown)


def _silent(tree: ast.AST) -> Iterator[ast.AST]:
    """Parts whose change no test can notice: annotations, and `strict=True`, an assertion of what is always so."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="strict", value=value):
                yield value
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=ast.expr() as annotation):
                yield annotation
            case ast.FunctionDef(returns=ast.expr() as returns):
                yield returns


def _environment(tree: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(tree / "src"), "CI": "true", "OPENBLAS_NUM_THREADS": "1"}


class Workplace:
    """A copy of the tree with one mutant at a time, and a process that runs tests there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("src", "tests", "examples", "docs", "benchmarks", "experiments", "tools"):
            if (ROOT / name).exists():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile"):
            shutil.copy(ROOT / name, folder / name)
        self._runner = subprocess.Popen(
            [sys.executable, ROOT / "tools" / "mutant_runner.py"],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def notices(self, mutant: Mutant, tests: list[str]) -> tuple[bool, str]:
        """Whether a test notices it, and which one; "" if the mutant cannot even be loaded, or hangs."""
        path = self._folder / mutant.where
        original = path.read_text()
        _put(path, mutant.text)
        try:
            return self.fails(tests)
        finally:
            _put(path, original)

    def fails(self, tests: list[str]) -> tuple[bool, str]:
        assert self._runner.stdin is not None
        assert self._runner.stdout is not None
        self._runner.stdin.write(json.dumps(tests) + "\n")
        self._runner.stdin.flush()
        status, test = json.loads(self._runner.stdout.readline())
        return status not in (0, 5), test  # 5: no test was collected

    def close(self) -> None:
        self._runner.communicate()


def _put(path: Path, text: str) -> None:
    """Write a module, and leave no compiled one that could be taken for it: times of files are too coarse."""
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", choices=("", *PACKAGES))
    parser.add_argument("--tests", action="append", default=[], help="only these files or folders of tests")
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    found = reach(given.jobs, given.tests)
    mutants = sample(given.count, given.seed, given.only, found)
    survivors, alarms = judge_all(mutants, found, collected(given.tests), given.jobs)
    for test in alarms:
        print(f"fails without a mutant too, so its answers count for nothing: {test}")
    noticed = len(mutants) - len(survivors)
    print(f"\n{noticed} of {len(mutants)} mutants noticed ({100 * noticed / max(1, len(mutants)):.1f} %)")
    if given.report:
        rows = [{"path": m.where, "line": m.line, "what": m.what, "shown": m.shown} for m in survivors]
        given.report.write_text(json.dumps({"mutants": len(mutants), "survivors": rows}, indent=1))
    return 1 if alarms else 0


def judge_all(mutants: list[Mutant], found: Reach, known: set[str], jobs: int) -> tuple[list[Mutant], list[str]]:
    """Surviving mutants, and tests that failed but also fail without the mutant."""
    survivors: list[Mutant] = []
    noticing: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        places = [Workplace(Path(folder) / str(number)) for number in range(jobs)]
        free = list(places)

        def judge(mutant: Mutant) -> tuple[bool, str]:
            place = free.pop()
            try:
                return place.notices(mutant, found.of(mutant.path, mutant.line, known))
            finally:
                free.append(place)

        with ThreadPoolExecutor(jobs) as pool:
            for number, (mutant, (noticed, test)) in enumerate(zip(mutants, pool.map(judge, mutants), strict=True), 1):
                if noticed:
                    noticing.add(test)
                else:
                    survivors.append(mutant)
                    print(f"survived: {mutant.where}:{mutant.line}: {mutant.what}: {mutant.shown}", flush=True)
                print(f"\r{number} of {len(mutants)}, {len(survivors)} survived", end="", file=sys.stderr, flush=True)
        alarms = [test for test in sorted(noticing - {""}) if places[0].fails([test])[0]]
        for place in places:
            place.close()
    return survivors, alarms


if __name__ == "__main__":
    sys.exit(main())
