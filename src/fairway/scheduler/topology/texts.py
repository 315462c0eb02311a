"""What is said of a job that finds no domain."""

from __future__ import annotations

from fairway.scheduler.topology.domains import Domain, Domains


def domains_text(domains: Domains, found: list[Domain], needed: int, most: int) -> str:
    """`no domain of topology.kubernetes.io/rack can take 8 pods at once: the largest takes 6`."""
    level = " or ".join(level.name for level in domains.levels)
    if not domains.levels:
        return "there are no HyperNodes of an allowed tier, and the policy lists no topology.levels"
    if not found:
        return f"no node is in a domain of {level}"
    if found[0].members:
        names = " and ".join(sorted({domain.name for domain in found}))
        pods = "1 more pod" if needed == 1 else f"{needed} more pods"
        return f"its other pods are in {names} of {level}, which can take {most} of the {pods} it needs"
    pods = "1 pod" if needed == 1 else f"{needed} pods at once"
    return f"no domain of {level} can take {pods}: the largest takes {most}"
