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
    "plan": "decide once on manifests, and say why the rest waits",
    "explain": "why a job waits, what would start it now, and when it starts",
    "queue": "jobs that wait: position, reason and estimated start",
    "order": "why a job stands where it stands, key by key",
    "queues": "the shares of queues and namespaces after one cycle",
    "classes": "the devices that classes select, and the pods that use them",
    "place": "choose clusters for placements, and say why",
    "clusters": "the clusters of a fleet: free capacity, taints, age of reports",
    "run": "the scheduler of a cluster: watch, decide, bind",
    "agent": "the node side of devices: plugins, slices, claims",
    "fleet": "the placer of a hub: watch, choose clusters, write decisions",
    "install": "print what a cluster needs to run Fairway: kinds, access, rules",
    "sandbox": "an embedded cluster and the real scheduler, live; no Kubernetes",
    "apply": "create or change objects of the sandbox that runs",
    "delete": "delete jobs and other objects of the sandbox",
    "get": "list jobs, queues, nodes, events and objects of the sandbox",
    "simulate": "run a scenario or trace through time and report the results",
    "diff": "the same jobs under two policies: what gains, what loses",
    "sweep": "many policies on one scenario, in parallel, as one table",
    "record": "write what the scheduler reads of a cluster to files",
    "web": "a recorded run as a page in the browser",
    "replay": "decide a logged cycle again, as it was or under another policy",
    "compare": "compare two resource lists in all nine ways",
    "policy": "check, show and explain policy files",
    "completion": "print the completion script for your shell",
    "version": "print the version and the commit it was built from",
}

START = """\
Fairway {version}: a fair batch scheduler for Kubernetes that can say why a job
waits, when it will start and what a change of policy would do.

Try:
  fairway sandbox
      an embedded cluster with the real scheduler, live in this terminal
  fairway plan -f examples/cluster
      what would be placed where, what waits and why, what queues have
  fairway explain team-language/pretrain -f examples/cluster
      why that job waits, what would start it now, and when it starts
  fairway policy show
      the policy that applies when you give none, setting by setting

fairway --help lists the commands, fairway COMMAND --help shows examples.\
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
    epilog="fairway COMMAND --help shows examples of a command.",
)
@click.option("-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help=VERSION)
@click.pass_context
def fairway(context: click.Context) -> None:
    """A fair, explainable batch scheduler for Kubernetes, and a placer over fleets."""
    if context.invoked_subcommand is None:
        echo(START.format(version=__version__))


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: run, and leave with the exit code."""
    sys.exit(run(fairway, sys.argv[1:] if arguments is None else arguments))


if __name__ == "__main__":
    main()
