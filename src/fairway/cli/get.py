"""`fairway get`: list objects of the running sandbox, of manifests, or of a live cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from fairway.cli.inputs import GivenCluster, cluster_options
from fairway.cli.output import console, echo, print_structured, table

if TYPE_CHECKING:
    from fairway.cli.listing import ListedCluster, ListedObject


EVENTS = 30
FINISHED = 10
"""Events and finished jobs in a table; the rest are counted."""
WATCH_INTERVAL = 1.0
"""Seconds between two requests of `--watch`."""
_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(r"([^\s=!,()]+)\s*(==|=|!=)\s*([^\s=!,()]*)")
_PRESENT = re.compile(r"(!?)\s*([^\s=!,()]+)")
_PARTS = re.compile(r",(?![^()]*\))")
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

    if all_namespaces and namespace is not None:
        raise click.UsageError("-A cannot be combined with -n")
    word = _kind(kind)
    has_labels = None if selector is None else label_selector(selector)
    if has_labels is not None and word == "Event":
        raise click.UsageError("-l: events have no labels")
    if watch and given.files:
        raise click.UsageError("-w requires the sandbox; objects that were read once do not change")
    client = _source(given)

    def ask() -> list[ListedObject]:
        found = [entry for entry in entries(client, word) if is_meant(entry.key, name, namespace)]
        if has_labels is not None:
            found = [entry for entry in found if has_labels(entry.labels)]
        return found if sort_by is None else ordered(found, sort_by)

    found = ask()
    if name is not None and not found and word != "Event":
        from fairway.cli.invocation import CheckFailed

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
    from fairway.app.sandbox import SHORT_NAMES, kind_named
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
    """The last events, or all jobs except those that finished earlier: what fits on a screen."""
    if kind == "Event":
        return list(found[-EVENTS:])
    done = [entry for entry in found if kind == "Job" and entry.cells["phase"] == "finished"]
    left_out = {id(entry) for entry in sorted(done, key=lambda entry: entry.data["ended"])[:-FINISHED]}
    return [entry for entry in found if id(entry) not in left_out]


def _watch(kind: str, found: Sequence[ListedObject], ask: Callable[[], list[ListedObject]], output: str) -> None:
    """Print the list, then each new or changed entry; a growing age is not a change."""
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
        time.sleep(WATCH_INTERVAL)
        yield ask()


def _name(entry: ListedObject, number: int) -> str:
    """The identity of an entry; an event is its own."""
    return repr(entry.cells) if "event" in entry.cells else entry.key


def _state(entry: ListedObject) -> object:
    return {name: text for name, text in (entry.cells | entry.wide).items() if name != "age"}


def _rows(
    found: Sequence[ListedObject], wide: bool, widths: dict[str, int] | None = None, *, header: bool = True
) -> None:
    """Print a table; `widths` are those of earlier rows, to which later ones are aligned."""
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


def label_selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    """A predicate on labels for a selector such as `app=web,tier!=cache,zone in (a, b),gpu,!spot`."""
    from fairway.api.meta import LabelSelectorRequirement
    from fairway.api.pods import satisfies
    from fairway.errors import InputError

    requirements = []
    for part in (piece.strip() for piece in _PARTS.split(text)):
        if found := _SET.fullmatch(part):
            values = tuple(value.strip() for value in found[3].split(","))
            requirements.append(LabelSelectorRequirement(found[1], "In" if found[2] == "in" else "NotIn", values))
        elif found := _EQUAL.fullmatch(part):
            requirements.append(LabelSelectorRequirement(found[1], "NotIn" if found[2] == "!=" else "In", (found[3],)))
        elif found := _PRESENT.fullmatch(part):
            requirements.append(LabelSelectorRequirement(found[2], "DoesNotExist" if found[1] else "Exists"))
        else:
            raise InputError(f"-l {text!r}: {part!r} is not a requirement, expected for example app=web,tier!=cache")
    return lambda labels: satisfies(requirements, labels)


def ordered(entries: Sequence[ListedObject], by: str) -> list[ListedObject]:
    """Entries sorted by a column of the table or a field such as `.metadata.name`; those without it come last."""
    from fairway.errors import InputError

    if not entries:
        return []
    column = by.lower()
    if column in entries[0].cells:
        texts = {id(entry): entry.created if column == "age" else entry.cells[column] for entry in entries}
        values: dict[int, Any] = texts
    else:
        path = by.strip("{}").lstrip(".").split(".")
        values = {id(entry): _field(entry.data, path) for entry in entries}
        if all(value is None for value in values.values()):
            columns = ", ".join(entries[0].cells)
            raise InputError(
                f"--sort-by {by}: no such column or field, expected one of {columns}, or a field such as .metadata.name"
            )
    return sorted(entries, key=lambda entry: _comparable(values[id(entry)]))


def _field(data: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(data, Mapping) or name not in data:
            return None
        data = data[name]
    return data


def _comparable(value: Any) -> tuple[int, float, tuple[tuple[str, int], ...]]:
    """Sort key: numbers by size, then text with embedded numbers by size (`n2` before `n10`), then missing values."""
    if value is None or value == "":
        return 2, 0.0, ()
    if isinstance(value, int | float):
        return 0, float(value), ()
    pieces = re.findall(r"(\D*)(\d*)", str(value))
    return 1, 0.0, tuple((text, int(number or 0)) for text, number in pieces if text or number)
