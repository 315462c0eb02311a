"""The `fairway` command: a table of commands, and what is shown when none is given.

A new command is one line in COMMANDS and a module `fairway.cli.<name>` with a click command named `command`. Such a
module imports what it needs inside the command, so that `--help` stays instant.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from fairway import __version__
from fairway.cli.errors import run
from fairway.cli.lazy import LazyGroup
from fairway.cli.output import echo

COMMANDS = {
    "plan": "Run one scheduling cycle on manifests and print the plan",
    "explain": "Explain why a job is pending and what would start it",
    "queue": "List pending jobs with position, reason and estimated start",
    "order": "Explain a job's queue position, key by key",
    "queues": "Show the shares of queues and namespaces after one cycle",
    "classes": "List device classes, their devices and the pods using them",
    "place": "Select clusters for placements, with scores and reasons",
    "clusters": "List the clusters of a fleet with free capacity and taints",
    "run": "Run the scheduler on a cluster",
    "agent": "Run the node agent, which publishes and prepares devices",
    "fleet": "Run the fleet placer on a hub",
    "install": "Print the manifests that install Fairway on a cluster",
    "sandbox": "Run an embedded cluster with the real scheduler",
    "apply": "Create or update objects in the sandbox",
    "delete": "Delete jobs and other objects from the sandbox",
    "get": "List jobs, queues, nodes, events and other objects",
    "simulate": "Simulate a scenario or trace and report the results",
    "diff": "Compare two policies on the same jobs",
    "sweep": "Run one scenario under many policies in parallel",
    "record": "Save the scheduler's view of a cluster to files",
    "web": "Serve the web page of a recorded run or a live scheduler",
    "replay": "Replay a recorded cycle, with its own or another policy",
    "compare": "Compare two resource lists in all nine ways",
    "policy": "Check, show and import policy files",
    "completion": "Print the shell completion script",
    "version": "Print the version and the commit it was built from",
}

START = """\
Fairway {version}: a fair batch scheduler for Kubernetes that explains why a job
is pending, when it will start and what a policy change would do.

Try:
  fairway sandbox
      run an embedded cluster with the real scheduler in this terminal
  fairway plan -f examples/cluster
      show what would be placed where, what stays pending, and why
  fairway explain team-language/pretrain -f examples/cluster
      explain why this job is pending and what would start it now
  fairway policy show
      show the built-in policy, setting by setting

Run `fairway --help` for all commands, `fairway COMMAND --help` for examples.\
"""

VERSION = "Print the version and the commit, and exit."


def _print_version(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given and not context.resilient_parsing:
        from fairway.cli.version import commit_of, version_text

        echo(version_text(commit_of()))
        context.exit()


@click.command(
    cls=LazyGroup,
    package="fairway.cli",
    texts=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Run `fairway COMMAND --help` for the options and examples of a command.",
)
@click.option("-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help=VERSION)
@click.pass_context
def fairway(context: click.Context) -> None:
    """A fair, explainable batch scheduler for Kubernetes, and a placer for fleets of clusters."""
    if context.invoked_subcommand is None:
        echo(START.format(version=__version__))


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: runs the command and exits with its status."""
    sys.exit(run(fairway, sys.argv[1:] if arguments is None else arguments))


if __name__ == "__main__":
    main()
