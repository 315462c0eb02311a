"""`fairway clusters`: the clusters of a fleet at one glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairway.cli import inputs
from fairway.cli.output import console, output_option, print_structured, table, warn

if TYPE_CHECKING:
    from fairway.fleet.overview import ClusterOverview

NAMED = 3
"""Of several sizes or taints, this many are shown in the table."""


@click.command(
    epilog="""\b
Examples:
  fairway clusters --context hub
  fairway clusters -f fleet/ -o json"""
)
@inputs.cluster_or_files_option
@inputs.strict_option
@inputs.skip_invalid_option
@inputs.now_option
@output_option
def command(files: tuple[str, ...], now: str | None, output: str) -> None:
    """List ManagedClusters with free capacity, how many pods of common sizes fit, taints, and report age."""
    from fairway.fleet.overview import overview

    moment = inputs.read_time(now)
    manifests = inputs.read_fleet(files)
    found = overview(manifests.objects, moment)
    for warning in manifests.warnings:
        warn(warning)
    if output != "table":
        print_structured({"clusters": [_document(one) for one in found]}, output)
        return
    if not found:
        console().print("There is no ManagedCluster.")
        return
    made = table("cluster", "state", "free", "fits", "used by", "report", numbers=["used by"])
    for one in found:
        made.add_row(one.name, _state(one), _free(one), _fits(one), str(one.placements), _report(one))
    console().print(made)
    for one in found:
        for problem in one.problems:
            warn(problem)


def _document(one: ClusterOverview) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(one)
    return document


def _state(one: ClusterOverview) -> str:
    words = [] if one.available else ["not available"]
    return ", ".join([*words, *one.taints[:NAMED]]) or "ok"


def _free(one: ClusterOverview) -> str:
    if one.free is None:
        return "unknown"
    shown = [name for name in one.free if name in ("cpu", "memory") or "/" in name]
    return ", ".join(f"{one.free[name]} {name}" for name in shown) or "nothing"


def _fits(one: ClusterOverview) -> str:
    texts = []
    for size in one.shapes[:NAMED]:
        request = " ".join(f"{text} {name}" for name, text in size.request.items() if name != "pods")
        where = ", ".join(f"{name}={value}" for name, value in size.node_selector.items())
        texts.append(f"{size.fits} of {request}{f' ({where})' if where else ''}")
    return "; ".join(texts)


def _report(one: ClusterOverview) -> str:
    if one.report_age is None:
        return "ended" if one.report_ended else "none"
    return f"ended, {one.report_age} s old" if one.report_ended else f"{one.report_age} s old"
