"""Check that a tag can be released, and write its release notes.

    python3 tools/release.py v0.1.0 --notes dist/release-notes.md

The tag is `v` and the version in `src/fairway/__init__.py`. CHANGELOG.md has a section of that version with a date; the
section is the release notes. Only the standard library is used.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_RELEASED = re.compile(r"(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?) \((\d{4}-\d{2}-\d{2})\)")


def version(root: Path = ROOT) -> str:
    text = (root / "src" / "fairway" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    assert found is not None
    return found[1]


def sections(changelog: str) -> dict[str, str]:
    """The text of each section of CHANGELOG.md, by its heading."""
    parts = _HEADING.split(changelog)
    return {heading.strip(): text.strip() for heading, text in zip(parts[1::2], parts[2::2], strict=True)}


def notes(changelog: str, released: str) -> str:
    """The release notes of a version. Raises ValueError if CHANGELOG.md has none."""
    for heading, text in sections(changelog).items():
        found = _RELEASED.fullmatch(heading)
        if found and found[1] == released:
            if not text:
                raise ValueError(f"CHANGELOG.md: the section of {released} is empty")
            return text + "\n"
    raise ValueError(f"CHANGELOG.md: there is no section '## {released} (YYYY-MM-DD)'")


def check(tag: str, root: Path = ROOT) -> str:
    """The release notes of a tag. Raises ValueError if the tag, the version and CHANGELOG.md do not agree."""
    if tag != f"v{version(root)}":
        raise ValueError(f"the tag is {tag!r}, but the version is {version(root)}: expected the tag v{version(root)}")
    return notes((root / "CHANGELOG.md").read_text(), version(root))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Check a release, and write its notes.")
    parser.add_argument("tag")
    parser.add_argument("--notes", type=Path, help="file for the release notes")
    options = parser.parse_args(arguments)
    try:
        text = check(options.tag)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    if options.notes:
        options.notes.parent.mkdir(parents=True, exist_ok=True)
        options.notes.write_text(text)


if __name__ == "__main__":
    main()
