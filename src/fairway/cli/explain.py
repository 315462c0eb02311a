"""`fairway explain`: why a job is pending, what would start it now, and when it will start anyway."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.inputs import GivenCluster, cluster_options
from fairway.cli.output import console, output_option, print_structured, warn
from fairway.cli.place import print_outcome

if TYPE_CHECKING:
    from fairway.app.explain import Forecast
    from fairway.fleet.advice import Advice


@click.command(
    epilog="""\b
Examples:
  fairway explain team-vision/sweep -f cluster/
  fairway explain sweep -f cluster/ --policy policy.yaml -o json
  fairway explain train-7                  a job in the running sandbox
  fairway explain placement shop/storefront --cluster warsaw -f fleet/"""
)
@click.argument("what", metavar="[placement] NAME", nargs=-1, required=True)
@cluster_options
@click.option("--cluster", metavar="NAME", help="With `placement`: explain what would make it select this cluster.")
@output_option
def command(what: tuple[str, ...], given: GivenCluster, cluster: str | None, output: str) -> None:
    """Explain why a job is pending, which smallest change would start it now, and when it will start.

    NAME is the job's namespace/name, or its name alone if that is unambiguous. The job is looked up in the manifests,
    the live cluster, or the running sandbox. Every answer is verified by scheduling on a copy; nothing is changed.

    With `placement`, explain why a Placement selects some clusters of a fleet and not others, score by score.
    """
    if len(what) == 2 and what[0] == "placement":
        _explain_placement(what[1], given, cluster, output)
        return
    if len(what) != 1 or cluster is not None:
        raise click.UsageError("expected the name of a job, or `placement` and a name; --cluster requires `placement`")
    (job,) = what
    _explain_job(job, given, output)


def _explain_job(job: str, given: GivenCluster, output: str) -> None:
    """In a table, the forecast comes last: a look ahead takes long in a large cluster."""
    from msgspec.structs import replace

    from fairway.app.explain import explain, forecast
    from fairway.cli.explain_table import ForecastPart, print_explanation

    situation = given.situation() if given.files else None

    def ahead(key: str) -> Forecast | None:
        return given.client().start(key) if situation is None else forecast(situation, key)

    if situation is None:
        said = given.client().explain(job)
    else:
        said = explain(situation, job, with_forecast=False)
    if output != "table":
        print_structured(replace(said, forecast=ahead(said.job) if said.standing.waits else None), output)
    else:
        print_explanation(said)
        if said.standing.waits:
            ForecastPart().finish(ahead(said.job))
    for warning in said.warnings:
        warn(warning)


def _explain_placement(name: str, given: GivenCluster, cluster: str | None, output: str) -> None:
    from fairway.errors import InputError
    from fairway.fleet.advice import advise, outcome_of
    from fairway.fleet.plan import placement_document
    from fairway.fleet.reports import as_trusted

    if not given.files:
        raise click.UsageError("expected -f, --context or --kubeconfig to read the fleet from")
    now = inputs.read_time(given.now)
    manifests = inputs.read_fleet(given.files)
    for warning in manifests.warnings:
        warn(warning)
    objects = as_trusted(manifests.objects, now)
    key = _placement_key(name, objects)
    if cluster is not None:
        _check_cluster(cluster, objects)
    outcome = outcome_of(objects, key, now)
    if outcome is None:
        raise InputError(f"placement {name} is being deleted")
    advice = None if cluster is None else advise(objects, key, cluster, now)
    if output != "table":
        document = placement_document(outcome)
        if advice is not None:
            document["advice"] = advice._asdict()
        print_structured(document, output)
        return
    out = console()
    print_outcome(out, outcome)
    if advice is not None:
        out.print()
        for line in _advice_lines(advice):
            out.print(line)


def _check_cluster(name: str, objects: Sequence[object]) -> None:
    from fairway.api.fleet import ManagedCluster
    from fairway.errors import InputError

    names = sorted(each.metadata.name for each in objects if isinstance(each, ManagedCluster))
    if name not in names:
        close = get_close_matches(name, names, 3) or names[:5]
        raise InputError(f"cluster {name} does not exist; there are: {', '.join(close) or 'none'}")


def _placement_key(name: str, objects: Sequence[object]) -> tuple[str, str]:
    from fairway.api.fleet import Placement
    from fairway.errors import InputError

    keys = {(each.metadata.namespace, each.metadata.name) for each in objects if isinstance(each, Placement)}
    namespace, slash, short = name.rpartition("/")
    found = sorted(key for key in keys if key[1] == short and (not slash or key[0] == namespace))
    if len(found) != 1:
        names = ", ".join("/".join(key) for key in sorted(keys)[:5]) or "none"
        why = "does not exist" if not found else "is ambiguous"
        raise InputError(f"placement {name} {why}; there are: {names}")
    return found[0]


def _advice_lines(advice: Advice) -> list[str]:
    if advice.is_chosen:
        return [f"{advice.cluster} is chosen."]
    lines = [f"What would make it select {advice.cluster}:"] if advice.steps else []
    lines += [f"{number}. {step}" for number, step in enumerate(advice.steps, 1)]
    if advice.obstacle:
        then = " after that" if advice.steps else ""
        lines.append(f"No further step is known{then}: {advice.obstacle}")
    return lines
