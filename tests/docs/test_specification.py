"""The specification in docs/spec: every citation leads to a rule, and every rule to the tests that hold it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
DESIGN = ROOT / "docs" / "design"
PAGES = sorted(path for path in SPEC.glob("*.md") if path.name != "README.md")
THIS = Path(__file__)

FOLDERS = ("src", "tests", "docs", "benchmarks", "experiments", "examples", "tools", "deploy", "frontend/src")
SUFFIXES = {".py", ".md", ".json", ".yaml", ".yml", ".toml", ".ts", ".tsx", ".go"}

_HEADING = re.compile(r"^(#{2,3}) ([SKDF]\d+(?:\.\d+)?) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[`(\w+)::(\w+)`\]\(([^)]+)\)")
_ID = r"[SKDF]\d+(?:\.\d+)?"
_CITATION = re.compile(rf"\b[Ss]pec ({_ID}(?:(?:,| to| and) {_ID})*)")
_BARE = re.compile(r"\b(?:S\d+\.\d+|K\d+)\b")
_IN_A_NAME = re.compile(r"\bdef test_(K\d+)_")
_OUTSIDE = re.compile(
    r"\bsemantics(?:\.md| \d)|\b(?:kube|design|engine-notes|live-notes)\.md|\bdesign section|\bseed 00\d"
)
"""Documents that are not in the repository."""


class Rule(NamedTuple):
    page: Path
    id: str
    title: str
    text: str

    @property
    def is_planned(self) -> bool:
        return self.title.endswith("(planned)")


@cache
def rules() -> list[Rule]:
    found = []
    for page in PAGES:
        text = page.read_text()
        starts = [*_HEADING.finditer(text)]
        ends = [*(match.start() for match in starts[1:]), len(text)]
        found += [
            Rule(page, match[2], match[3], text[match.end() : end])
            for match, end in zip(starts, ends, strict=True)
            if match[1] == "###"
        ]
    return found


@cache
def citable() -> frozenset[str]:
    """Rules, and the sections that they are in."""
    ids = {rule.id for rule in rules()}
    return frozenset(ids | {one.partition(".")[0] for one in ids})


@cache
def files() -> list[tuple[Path, str]]:
    named = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml")]
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    kept = [path for path in [*named, *paths] if path.is_file() and path != THIS and "node_modules" not in path.parts]
    return [(path, path.read_text(errors="replace")) for path in kept]


@cache
def functions(path: Path) -> frozenset[str]:
    """Of the test file, methods of test classes and of state machines too."""
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def cited(text: str) -> Iterator[str]:
    """The ids that a text cites; of `S6.1 to S6.3` the ends, and what lies between them."""
    for match in _CITATION.finditer(text):
        ids = re.findall(_ID, match[1])
        yield from ids
        for first, last in pairwise(ids):
            if f"{first} to {last}" in match[1]:
                yield from _between(first, last)
    yield from _BARE.findall(text)
    yield from _IN_A_NAME.findall(text)


def _between(first: str, last: str) -> Iterator[str]:
    head, _, low = first.rpartition(".") if "." in first else (first[0], "", first[1:])
    other, _, high = last.rpartition(".") if "." in last else (last[0], "", last[1:])
    assert head == other, f"{first} to {last}: a range stays within one section"
    assert int(low) < int(high), f"{first} to {last}: a range goes upwards"
    point = "." if "." in first else ""
    yield from (f"{head}{point}{number}" for number in range(int(low) + 1, int(high)))


def test_there_are_rules_on_every_page() -> None:
    assert {rule.page for rule in rules()} == set(PAGES)
    assert {page.stem for page in PAGES} == {"scheduling", "live", "devices", "fleet"}


def test_an_id_is_used_once_and_none_is_left_out() -> None:
    ids = [rule.id for rule in rules()]
    assert [one for one, times in Counter(ids).items() if times > 1] == []
    for first, last in pairwise(ids):
        section, _, number = last.rpartition(".")
        if section and first.startswith(f"{section}."):
            assert int(number) == int(first.rpartition(".")[2]) + 1, last
        elif not section and first[0] == last[0]:
            assert int(last[1:]) == int(first[1:]) + 1, last


def test_the_readme_names_the_first_and_the_last_rule_of_each_page() -> None:
    readme = (SPEC / "README.md").read_text()
    for page in PAGES:
        ids = [rule.id for rule in rules() if rule.page == page]
        assert f"| [{page.name}]({page.name}) | {ids[0]} to {ids[-1]} |" in readme


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_a_rule_has_tests_that_exist(rule: Rule) -> None:
    links = _LINK.findall(rule.text)
    prose = rule.text.partition("Tests:")[0].strip()
    assert len(prose) > 40, "the rule says nothing"
    assert not (rule.is_planned and links), "what has tests is not planned any more"
    assert links or rule.is_planned, "no test holds this rule"
    for file, name, target in links:
        path = (rule.page.parent / target).resolve()
        assert path.is_file(), target
        assert path.stem == file, f"{file} is not the name of {target}"
        assert name.startswith("test_"), name
        assert name in functions(path), f"{target} has no test {name}"


def test_a_planned_rule_is_marked_in_its_text_too() -> None:
    for rule in rules():
        assert ("will " in rule.text) or not rule.is_planned, rule.id


def test_every_citation_leads_to_a_rule() -> None:
    lost = [f"{path.relative_to(ROOT)}: {one}" for path, text in files() for one in cited(text) if one not in citable()]
    assert lost == []


def test_code_and_tests_cite_the_specification() -> None:
    """If the pattern of citations changes, the test above must not pass because it finds none."""
    where = Counter(path.relative_to(ROOT).parts[0] for path, text in files() if any(cited(text)))
    assert where["src"] > 30
    assert where["tests"] > 40


def test_no_document_outside_the_repository_is_cited() -> None:
    found = [f"{path.relative_to(ROOT)}: {match[0]}" for path, text in files() for match in _OUTSIDE.finditer(text)]
    assert found == []


def test_decisions_are_numbered_listed_and_complete() -> None:
    pages = sorted(DESIGN.glob("[0-9]*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    index = (DESIGN / "README.md").read_text()
    for page in pages:
        assert f"]({page.name})" in index, page.name
        text = page.read_text()
        assert text.startswith(f"# {page.name[:4]} "), page.name
        sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert sections == ["Context", "Decision", "Alternatives", "Consequences"], page.name


@pytest.mark.parametrize(
    "page", sorted([*SPEC.glob("*.md"), *DESIGN.glob("*.md")]), ids=lambda page: f"{page.parent.name}/{page.stem}"
)
def test_links_of_specification_and_design_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
