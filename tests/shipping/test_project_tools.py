"""The tools behind `make coverage`, `make commits` and `make release-check`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import commit_subject, coverage_floors, release

ROOT = Path(__file__).parents[2]


# -- coverage ------------------------------------------------------------------------------------------------------


def report(*files: tuple[str, int, int]) -> dict[str, object]:
    return {"files": {path: {"summary": {"covered_lines": ran, "num_statements": of}} for path, ran, of in files}}


def test_coverage_is_summed_by_package() -> None:
    found = coverage_floors.by_package(
        report(
            ("src/fairway/state/jobs.py", 8, 10),
            ("src/fairway/state/intake/pods.py", 1, 10),
            ("src/fairway/fleet/__init__.py", 0, 0),
            ("src/fairway/clock.py", 1, 1),
        )
    )
    assert found == {"state": (9, 20)}


def test_a_package_below_its_floor_or_not_measured_is_named() -> None:
    whole = dict.fromkeys(coverage_floors.FLOORS, (1000, 1000))
    assert coverage_floors.below_floor(whole) == []
    floor = coverage_floors.FLOORS["state"]
    assert coverage_floors.below_floor({**whole, "state": (10 * floor, 1000)}) == []
    (problem,) = coverage_floors.below_floor({**whole, "state": (10 * floor - 1, 1000)})
    assert problem.startswith("state: ")
    del whole["devices"]
    assert coverage_floors.below_floor(whole)[0].startswith("devices: nothing")


def test_the_packages_that_decide_have_a_floor() -> None:
    assert set(coverage_floors.FLOORS) == {"resources", "state", "scheduler", "devices", "fleet"}
    assert all((ROOT / "src" / "fairway" / package).is_dir() for package in coverage_floors.FLOORS)


# -- commit messages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("Add a queue\n", None),
        ("# a comment of Git\n\nAdd a queue\n\nA body.\n# Changes:\n", None),
        ("a" * 72, None),
        ("a" * 73, "73 characters"),
        ("Add a queue.", "full stop"),
        ("Add a queue\nand a body", "no empty line"),
        ("# only comments\n", "empty"),
        (f"Merge branch '{'b' * 80}'", None),
    ],
)
def test_commit_messages(message: str, wrong: str | None, tmp_path: Path) -> None:
    found = commit_subject.problems(message)
    assert len(found) == (wrong is not None)
    assert (wrong or "") in "".join(found)
    file = tmp_path / "message"
    file.write_text(message)
    command = [sys.executable, str(ROOT / "tools" / "commit_subject.py"), str(file)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == (1 if wrong else 0)


def test_the_commits_of_a_branch(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        named = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments]
        subprocess.run(named, cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch=main")
    git("commit", "--allow-empty", "--message", "A subject on main that nobody checks any more.")
    git("switch", "--create", "branch")
    git("commit", "--allow-empty", "--message", "Add a queue")
    git("commit", "--allow-empty", "--message", "b" * 80)
    command = [sys.executable, str(ROOT / "tools" / "commit_subject.py"), "--since", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"[0-9a-f]{7,}: the subject has 80 characters, expected at most 72\n", done.stderr)


# -- releases ------------------------------------------------------------------------------------------------------

CHANGELOG = (
    "# Changes\n\n## Unreleased\n\n- new\n\n## 1.2.0 (2026-01-02)\n\n- second\n\n## 1.1.0 (2026-01-01)\n\n- first\n"
)


def test_the_notes_of_a_release_are_its_section() -> None:
    assert release.notes(CHANGELOG, "1.2.0") == "- second\n"
    for missing in ("1.3.0", "Unreleased"):
        with pytest.raises(ValueError, match="there is no section"):
            release.notes(CHANGELOG, missing)
    with pytest.raises(ValueError, match="is empty"):
        release.notes(CHANGELOG.replace("- second", ""), "1.2.0")


def test_a_tag_must_be_the_version(tmp_path: Path) -> None:
    package = tmp_path / "src" / "fairway"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    assert release.check("v1.2.0", tmp_path) == "- second\n"
    for tag in ("1.2.0", "v1.1.0", "v1.2.0-rc1", ""):
        with pytest.raises(ValueError, match="the tag is"):
            release.check(tag, tmp_path)


def test_the_changelog_has_unreleased_changes_first_and_a_section_for_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = list(release.sections(text))
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d{2}-\d{2}\)", heading) for heading in headings[1:])
    assert release.notes(text, release.version())


def test_a_release_is_a_list_by_area_that_can_be_read() -> None:
    """Not one long list in the order of development, which a careless merge can bring back."""
    for heading, text in list(release.sections((ROOT / "CHANGELOG.md").read_text()).items())[1:]:
        introduction, *groups = text.split("\n### ")
        assert groups, heading
        assert "\n- " not in introduction
        assert all(group.count("\n- ") <= 15 for group in groups), heading
