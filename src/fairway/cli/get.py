"""`fairway get`: list objects of the running sandbox, of manifests, or of a live cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fairway.cli.cluster_options import GivenCluster, cluster_options
from fairway.cli.output import console, echo, print_structured, table

if TYPE_CHECKING:
    from fairway.cli.listing import ListedCluster, ListedObject

EVENTS = 30
FINISHED = 10
"""Events and finished jobs in a table; a line below it counts the rest."""
RHYTHM = 1.0
"""Seconds between two questions of `--watch`."""
NUMBERS = ("pods", "weight", "share", "reserved", "allocated", "age")


@click.command(
    epilog="""\b
Examples:
  fairway get                          pending, running and finished jobs
  fairway get q -o yaml                queues; also po, no, pg, ns, rsv, ...
  fairway get pods -n vision -l app=web --sort-by age
  fairway get podgroup language/pretrain -o yaml
  fairway get jobs -w                  watch for changes
  fairway get reservations             nodes reserved for starving jobs
  fairway get events
  fairway get jobs -f cluster/         also queues, nodes, pods, ...
  fairway get q --context staging      from a live cluster"""
)
@click.argument("kind", default="jobs")
@click.argument("name", required=False, metavar="[[NAMESPACE/]NAME]")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="List only objects in this namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="List objects in all namespaces (the default).")
@click.option(
    "-l", "--selector", metavar="LABELS", help="Label selector to filter on, for example app=web,tier!=cache."
)
@click.option("--sort-by", metavar="COLUMN", help="Column of the table, or field such as .metadata.name, to sort by.")
@click.option(
    "-w", "--watch", is_flag=True, help="Watch for changes and print new and changed objects until interrupted."
)
@cluster_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "wide", "name", "json", "yaml")),
    default="table",
    show_default=True,
    help="Output format.",
)
def command(
    kind: str,
    name: str | None,
    namespace: str | None,
    all_namespaces: bool,
    selector: str | None,
    sort_by: str | None,
    watch: bool,
    given: GivenCluster,
    output: str,
) -> None:
    """List jobs, queues, nodes, events or other objects of the running sandbox, of manifests, or of a live cluster.

    For pending jobs, shows what the next cycle would report. Only objects that matter for scheduling are listed.
    """
    from fairway.cli.listing import entries, is_meant
    from fairway.cli.selecting import label_selector, ordered

    if all_namespaces and namespace is not None:
        raise click.UsageError("-A and -n exclude each other")
    word = _kind(kind)
    has_labels = None if selector is None else label_selector(selector)
    if has_labels is not None and word == "Event":
        raise click.UsageError("-l: events have no labels")
    if watch and given.files:
        raise click.UsageError("-w goes with the sandbox: what was read once does not change")
    client = _source(given)

    def ask() -> list[ListedObject]:
        found = [entry for entry in entries(client, word) if is_meant(entry.key, name, namespace)]
        if has_labels is not None:
            found = [entry for entry in found if has_labels(entry.labels)]
        return found if sort_by is None else ordered(found, sort_by)

    found = ask()
    if name is not None and not found and word != "Event":
        from fairway.cli.errors import CheckFailed

        where = f" in namespace {namespace}" if namespace else ""
        raise CheckFailed(f"Error: there is no {word} {name}{where}")
    if watch:
        _watch(word, found, ask, output)
    else:
        _print(word, found, output)


def _source(given: GivenCluster) -> ListedCluster:
    if not given.files:
        return given.client()
    from fairway.app.view.frame import GivenObjects

    return GivenObjects(given.situation())


def _kind(word: str) -> str:
    from fairway.app.sandbox.kind_names import SHORT_NAMES, kind_named
    from fairway.cli.listing import ROWS

    lower = word.lower()
    rows = {name for row in ROWS for name in (row.lower(), f"{row.lower()}s")}
    full = SHORT_NAMES.get(lower, lower)
    return full.rstrip("s").capitalize() if full in rows else kind_named(word).name


def _print(kind: str, found: Sequence[ListedObject], output: str) -> None:
    if output == "name":
        for entry in found:
            echo(f"{kind.lower()}/{entry.key}")
    elif output in ("json", "yaml"):
        print_structured({"items": [entry.data for entry in found]}, output)
    elif not found:
        console().print("None.")
    else:
        shown = list(found) if output == "wide" else _latest(kind, found)
        _rows(shown, output == "wide")
        if len(shown) < len(found):
            what = "earlier events" if kind == "Event" else "jobs that finished earlier"
            echo(f"... and {len(found) - len(shown)} {what}; -o wide lists all", err=True)


def _latest(kind: str, found: Sequence[ListedObject]) -> list[ListedObject]:
    """The last events, or all jobs but those that finished long ago: what a screen has room for."""
    if kind == "Event":
        return list(found[-EVENTS:])
    done = [entry for entry in found if kind == "Job" and entry.cells["phase"] == "finished"]
    left_out = {id(entry) for entry in sorted(done, key=lambda entry: entry.data["ended"])[:-FINISHED]}
    return [entry for entry in found if id(entry) not in left_out]


def _watch(kind: str, found: Sequence[ListedObject], ask: Callable[[], list[ListedObject]], output: str) -> None:
    """The list, then each entry again when it is new or other than it was; an age that goes on is no change."""
    widths: dict[str, int] = {}
    seen: dict[str, object] = {}
    try:
        for listed in _again(found, ask):
            new = [entry for number, entry in enumerate(listed) if seen.get(_name(entry, number)) != _state(entry)]
            seen = {_name(entry, number): _state(entry) for number, entry in enumerate(listed)}
            if not new:
                continue
            if output in ("table", "wide"):
                _rows(new, output == "wide", widths, header=not widths)
            else:
                _print(kind, new, output)
    except KeyboardInterrupt:
        return


def _again(found: Sequence[ListedObject], ask: Callable[[], list[ListedObject]]) -> Iterator[Sequence[ListedObject]]:
    yield found
    while True:
        time.sleep(RHYTHM)
        yield ask()


def _name(entry: ListedObject, number: int) -> str:
    """By which an entry is known again; an event is itself."""
    return repr(entry.cells) if "event" in entry.cells else entry.key


def _state(entry: ListedObject) -> object:
    return {name: text for name, text in (entry.cells | entry.wide).items() if name != "age"}


def _rows(
    found: Sequence[ListedObject], wide: bool, widths: dict[str, int] | None = None, *, header: bool = True
) -> None:
    """A table; `widths` are those of the rows before, which later ones keep to."""
    columns = list(found[0].cells | found[0].wide if wide else found[0].cells)
    rows = table(*columns, numbers=[name for name in columns if name in NUMBERS])
    rows.show_header = header
    for entry in found:
        cells = entry.cells | entry.wide
        rows.add_row(*(cells[name] for name in columns))
    widths = {} if widths is None else widths
    for name, column in zip(columns, rows.columns, strict=True):
        column.min_width = widths.get(name)
    console().print(rows)
    widths.update((name, column.width or 0) for name, column in zip(columns, rows.columns, strict=True))
