"""CEL expressions over a cluster, as in Open Cluster Management.

An expression sees the variable `managedCluster`, the ManagedCluster as Kubernetes writes it, and may ask for the scores
that add-ons publish of it: `managedCluster.scores("name")`. One that does not compile is a problem of the placement and
misconfigures it; one that fails on a cluster (a field that is not there, a score that is not published) does not match
that cluster, and the reason says so.

The module is imported where the first expression is met: few placements have one, and the language is large.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from fairway.api.fleet import ManagedCluster
from fairway.cel import Environment, Evaluation, Program, shown
from fairway.cel.machine import function
from fairway.cel.values import Budget, EvaluationError
from fairway.fleet.scores import ScoreOf

VARIABLE = "managedCluster"
_SHOWN = 200


class ClusterDocument(dict[str, Any]):
    """A cluster as expressions see it, with the lookup for `scores`."""

    scores: ScoreOf


@function("scores", "map string", "list", member=True, spends=True)
def _scores(budget: Budget, cluster: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Expired scores count too, as in Open Cluster Management."""
    if not isinstance(cluster, ClusterDocument):
        raise EvaluationError("scores is for a managed cluster")
    found = cluster.scores(cluster["metadata"].get("name", ""), name)
    if found is None:
        raise EvaluationError(f"there is no AddOnPlacementScore {name!r:.80}")
    budget.spend_size(2 * len(found.status.scores))
    return [{"name": score.name, "value": score.value} for score in found.status.scores]


@function("parseJSON", "string", "dyn", member=True)
def _parse_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text, strict=True)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        raise EvaluationError("the text is not JSON") from None


_EMPTY: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {}}
MAX_STEPS = 10_000
"""For one cluster. There may be a thousand clusters, and all placements of a hub wait for the one being decided."""
_ENVIRONMENT = Environment(
    {VARIABLE: "map<dyn>"}, extra=["scores", "parseJSON"], probe={VARIABLE: _EMPTY}, most=MAX_STEPS
)


@lru_cache(maxsize=4096)
def compiled(expression: str) -> Program:
    """InputError if the library is missing, or the expression does not compile to true or false."""
    return _ENVIRONMENT.program(expression)


def document(cluster: ManagedCluster, scores: ScoreOf) -> ClusterDocument:
    """The value of `managedCluster`."""
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(cluster))
    head = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
    found = ClusterDocument({**head, **_EMPTY, **made})
    found.scores = scores
    return found


def evaluate(expression: str, cluster: ClusterDocument) -> Evaluation:
    return compiled(expression).run({VARIABLE: cluster})


def unmet(expression: str, cluster: ClusterDocument) -> str:
    """Why the cluster does not satisfy the expression; "" if it does."""
    return why_unmet(expression, evaluate(expression, cluster))


def why_unmet(expression: str, answer: Evaluation) -> str:
    if answer.error:
        return f"CEL {shown(expression)} fails: {answer.error}"
    if answer.value is True:
        return ""
    return f"CEL {shown(expression)} gives {str(answer.value).lower()[:_SHOWN]}"
