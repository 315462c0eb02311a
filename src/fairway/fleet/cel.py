"""CEL expressions over a cluster, through the library that the extra `cel` installs.

An expression sees the variable `managedCluster`, the ManagedCluster as Kubernetes writes it. One that does
not compile is the placement's fault and misconfigures it; one that fails on a cluster (a field that is not
there) does not match that cluster, and the reason says so.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from fairway.api.fleet import ManagedCluster
from fairway.devices.cel_program import Program, shown
from fairway.errors import InputError

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped]

VARIABLE = "managedCluster"


@lru_cache(maxsize=4096)
def compiled(expression: str) -> Program:
    """InputError where the library is missing, or the expression does not compile to true or false."""
    made = Program(_environment(), expression, (VARIABLE,))
    if made.type_name not in ("BOOL", "DYN"):
        raise InputError(f"CEL expression {shown(expression)} gives {made.type_name}, expected BOOL")
    return made


@lru_cache(maxsize=1)
def _environment() -> cel.Env:
    try:
        from cel_expr_python import cel
    except ImportError:
        raise InputError("CEL expressions need the extra cel: pip install 'fairway[cel]'") from None
    return cel.NewEnv(variables={VARIABLE: cel.Type.DYN})


def document(cluster: ManagedCluster) -> dict[str, Any]:
    """What `managedCluster` stands for."""
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(cluster))
    return {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", **made}


def unmet(expression: str, cluster: dict[str, Any]) -> str:
    """Why the cluster (a `document`) does not satisfy the expression; "" where it does."""
    answer = compiled(expression).run({VARIABLE: cluster})
    if answer.error:
        return f"CEL {shown(expression)} fails: {answer.error}"
    if answer.value is True:
        return ""
    return f"CEL {shown(expression)} gives {str(answer.value).lower()[:200]}"
