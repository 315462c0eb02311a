"""`fairway classes export --apply`: classes published as DeviceClasses of the cluster, once or from now on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from fairway.cli.lazy import Options
from fairway.cli.output import console, echo, print_structured, table

if TYPE_CHECKING:
    from fairway.kube.class_export import PublishedClass

EVERY = 10.0
"""Seconds between two looks with `--watch`."""


def apply(class_name: str | None, output: str, *, watch: bool) -> int:
    """The exit code: 1 where a class is not published, or not all of it."""
    from fairway.errors import InputError

    try:
        from fairway.kube.server.kubeconfig import find_connection
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed, expected: pip install 'fairway[kube]'") from None
    options = click.get_current_context().ensure_object(Options)
    if not options.asks_cluster:
        raise click.UsageError("--apply publishes the classes of a cluster: give --kubeconfig or --context, not -f")
    connection = find_connection(options.kubeconfig, options.context)
    return asyncio.run(_apply(connection, class_name, output, watch=watch))


async def _apply(connection: Any, class_name: str | None, output: str, *, watch: bool) -> int:
    from fairway.errors import InputError
    from fairway.kube.class_export import ClassPublisher
    from fairway.kube.http.client import ApiClient

    client, before = ApiClient(connection), None
    try:
        publisher = ClassPublisher(client, class_name)
        while True:
            try:
                published = await publisher.publish()
            except InputError as error:
                if before is None:
                    raise
                echo(f"Warning: {error}", err=True)  # it goes on when the server answers again
            else:
                if before is None or _changed(published, before):
                    _print(published, output)
                before = published
            if not watch:
                return int(not all(one.complete for one in before))
            await asyncio.sleep(EVERY)
    finally:
        await client.close()


def _changed(now: Sequence[PublishedClass], before: Sequence[PublishedClass]) -> bool:
    """Whether there is news: that what was created is unchanged now is none."""
    settled = [one._replace(result="unchanged") for one in before if one.result in ("created", "changed")]
    kept = [one for one in before if one.result in ("unchanged", "left out", "refused")]
    return list(now) != sorted([*settled, *kept], key=lambda one: one.name)


def _print(published: Sequence[PublishedClass], output: str) -> None:
    from fairway.kube.class_export import lines

    if output != "table":
        items = [
            {
                "name": one.name,
                "result": one.result,
                "complete": one.complete,
                "notExpressed": [
                    {"field": f"spec.{found.path}", "reason": found.reason, "message": found.message}
                    for found in one.findings
                ],
                **({"message": one.why} if one.why else {}),
            }
            for one in published
        ]
        print_structured({"deviceClasses": items}, output)
        return
    if not published:
        console().print("There is no class.")
        return
    made = table("class", "device class", "note")
    for one in published:
        notes = list(lines(one)) or [""]
        for place, note in enumerate(notes):
            made.add_row(*((one.name, one.result) if place == 0 else ("", "")), note)
    console().print(made)
