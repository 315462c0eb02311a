"""`fairway version` and `fairway completion`.

A wheel carries its commit in the file `fairway/commit`, which `hatch_build.py` writes. A checkout has no such file: Git
is asked instead, and only if the package lies in the `src` folder of that very checkout. A package that was installed
into some other project's repository must not report that project's commit.
"""

from __future__ import annotations

from pathlib import Path

import click

from fairway import __version__
from fairway.cli.output import echo, output_option, print_structured

UNKNOWN = "unknown"
PACKAGE = Path(__file__).resolve().parents[1]
_GIT_TIMEOUT = 5.0
"""Seconds. `--version` must not hang on a repository on a slow network disk."""


@click.command(
    epilog="""\b
Examples:
  fairway version
  fairway version -o json"""
)
@output_option
def command(output: str) -> None:
    """Print the version and the commit it was built from."""
    commit = commit_of()
    if output == "table":
        echo(version_text(commit))
    else:
        print_structured({"version": __version__, "commit": commit}, output)


@click.command(
    epilog="""\b
Examples:
  eval "$(fairway completion bash)"                    for this session
  fairway completion bash >> ~/.bashrc                 for every session
  fairway completion zsh > ~/.zfunc/_fairway
  fairway completion fish > ~/.config/fish/completions/fairway.fish"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None
    echo(complete(context.find_root().command, {}, "fairway", "_FAIRWAY_COMPLETE").source())


def version_text(commit: str) -> str:
    return f"fairway {__version__} (commit {commit})"


def commit_of(package: Path = PACKAGE) -> str:
    """The commit of this package, with the suffix `-modified` if files of a checkout differ from it, or `unknown`."""
    try:
        recorded = (package / "commit").read_text().strip()
    except OSError:
        recorded = ""
    return recorded or _commit_of_checkout(package.parents[1], package) or UNKNOWN


def _commit_of_checkout(root: Path, package: Path) -> str:
    import subprocess

    if package != root / "src" / "fairway" or not (root / ".git").exists():
        return ""
    git = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=-modified"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, timeout=_GIT_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
