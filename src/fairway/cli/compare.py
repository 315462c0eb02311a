"""`fairway compare`: the nine comparisons of two resource lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli.output import console, output_option, print_structured, table

if TYPE_CHECKING:
    from fairway.resources import Comparison, Resource


@click.command(
    epilog="""\b
Examples:
  fairway compare '{"cpu":"1","memory":"1G"}' '{"cpu":"2","gpu":"2"}'
  fairway compare '{"cpu":"4"}' '{"cpu":"4","gpu":"1"}' --default infinity"""
)
@click.argument("left", metavar="L")
@click.argument("right", metavar="R")
@click.option(
    "--default",
    type=click.Choice(["zero", "infinity"]),
    default="zero",
    show_default=True,
    help="Value of a dimension that is missing from one of the lists.",
)
@output_option
def command(left: str, right: str, default: str, output: str) -> None:
    """Compare the resource lists L and R (JSON objects) in all nine ways.

    A plain comparison must hold for every dimension; one that ends in _partly, for at least one. The column "decided
    by" lists the dimensions that determine the answer.
    """
    from fairway.resources import Default

    one, other = _read("L", left), _read("R", right)
    comparison = one.compare(other, Default(default))
    if output == "table":
        _print_table(one, other, default, comparison)
    else:
        print_structured({**comparison.answers(), "deciding": comparison.all_deciding()}, output)


def _read(side: str, text: str) -> Resource:
    """A resource list from the command line; numbers keep their digits."""
    import json

    from fairway.errors import InputError, QuantityError
    from fairway.resources import Resource

    try:
        given = json.loads(text, parse_float=str, parse_constant=str, object_pairs_hook=_once)
    except RecursionError:
        raise InputError(f"{side}: nested too deeply, expected a flat JSON object") from None
    except ValueError as error:
        raise InputError(f'{side}: not JSON: {error}, expected for example \'{{"cpu": "1"}}\'') from None
    if not isinstance(given, dict):
        raise InputError(f'{side}: not a JSON object, expected for example \'{{"cpu": "1"}}\'')
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise InputError(f'{side}: {name}: not a quantity, expected a string or number such as "500m" or 2')
    try:
        return Resource.parse(given)
    except QuantityError as error:
        raise InputError(f"{side}: {error}") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("duplicate name")
    return made


def _print_table(left: Resource, right: Resource, default: str, comparison: Comparison) -> None:
    out = console()
    out.print(f"L  {_list(left)}")
    out.print(f"R  {_list(right)}")
    out.print(f"A dimension missing from one of them counts as {default}.\n")
    rows = table("comparison", "answer", "decided by")
    for name, answer in comparison.answers().items():
        rows.add_row(name, "yes" if answer else "no", ", ".join(comparison.deciding(name)))
    out.print(rows)


def _list(resource: Resource) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in resource.format().items()) or "(empty)"
