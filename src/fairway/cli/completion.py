"""`fairway completion`: shell completion of commands and options."""

from __future__ import annotations

import click

from fairway.cli.output import echo


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
def command(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None
    echo(complete(context.find_root().command, {}, "fairway", "_FAIRWAY_COMPLETE").source())
