"""Check commit messages: a subject of at most 72 characters without a full stop, and an empty line before the body.

    python3 tools/commit_subject.py FILE               a message, as the commit-msg hook gets it
    python3 tools/commit_subject.py --since BASE       every commit from BASE to HEAD, as CI checks a pull request

Only the standard library is used: CI runs this before anything is installed.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

MAX_SUBJECT = 72
_UNCHECKED = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")
"""Subjects that Git writes itself."""


def problems(message: str) -> list[str]:
    """What is wrong with a commit message; lines that Git treats as comments do not count."""
    lines = [line.rstrip() for line in message.splitlines() if not line.startswith("#")]
    while lines and not lines[0]:
        del lines[0]
    if not lines:
        return ["the message is empty"]
    subject = lines[0]
    if subject.startswith(_UNCHECKED):
        return []
    found = []
    if len(subject) > MAX_SUBJECT:
        found.append(f"the subject has {len(subject)} characters, expected at most {MAX_SUBJECT}")
    if subject.endswith("."):
        found.append("the subject ends in a full stop")
    if len(lines) > 1 and lines[1]:
        found.append("there is no empty line between the subject and the body")
    return found


def messages_since(base: str) -> dict[str, str]:
    """The messages of the commits from `base` to HEAD, by their short hashes."""
    command = ["git", "log", "--no-merges", "-z", "--format=%h%n%B", f"{base}..HEAD"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    parts = [part.partition("\n") for part in text.split("\0") if part]
    return {commit: message for commit, _, message in parts}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Check commit messages.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("file", nargs="?", type=Path, help="file with one commit message")
    which.add_argument("--since", metavar="BASE", help="check the commits from BASE to HEAD")
    options = parser.parse_args(arguments)
    messages = messages_since(options.since) if options.since else {"commit": options.file.read_text()}
    wrong = [f"{name}: {problem}" for name, message in messages.items() for problem in problems(message)]
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
