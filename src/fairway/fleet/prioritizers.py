"""Which prioritizers a placement weighs: both forms of the API, modes, defaults and ranges.

Named `Balance`, `Steady`, `ResourceAllocatable<X>`, `ResourceRatio<X>`, `ResourceFree<X>` and
`AddOn/<resource>/<score>`, where <X> is `CPU`, `Memory`, or the name of any resource that clusters report,
set off with a colon: `ResourceRatio:nvidia.com/gpu`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from fairway.api.fleet import Placement, PrioritizerConfig
from fairway.fleet.names import BALANCE, STEADY

_SHORT = {"CPU": "cpu", "Memory": "memory"}


class By(Enum):
    """What a prioritizer scores by."""

    BALANCE = "Balance"
    STEADY = "Steady"
    ALLOCATABLE = "ResourceAllocatable"
    RATIO = "ResourceRatio"
    FREE = "ResourceFree"
    ADDON = "AddOn"


_RESOURCE_FORMS = (By.ALLOCATABLE, By.RATIO, By.FREE)


@dataclass(frozen=True, slots=True)
class Prioritizer:
    """`resource` is the resource scored, or of an add-on the name of its AddOnPlacementScore."""

    name: str
    by: By
    resource: str = ""
    score: str = ""


Weights = tuple[tuple[Prioritizer, int], ...]


def weights_of(placement: Placement, problems: list[str], warnings: list[str]) -> Weights:
    """The prioritizers with a weight other than zero, in the order first named."""
    policy = placement.spec.prioritizer_policy
    weights: dict[Prioritizer, int] = {}
    if policy.mode in ("", "Additive"):
        weights = {Prioritizer(BALANCE, By.BALANCE): 1, Prioritizer(STEADY, By.STEADY): 1}
    elif policy.mode != "Exact":
        problems.append(f"prioritizerPolicy.mode {policy.mode!r} is unknown, expected Additive or Exact")
    seen: set[Prioritizer] = set()
    for index, config in enumerate(policy.configurations):
        place = f"prioritizerPolicy.configurations[{index}]"
        wrong: list[str] = []
        prioritizer = _read(place, config, wrong)
        if prioritizer is None:
            if config.weight == 0 and wrong[0].find("unknown prioritizer") >= 0:
                warnings.append(f"{wrong[0]}; its weight is 0, so it is ignored")
            else:
                problems += wrong
            continue
        if prioritizer in seen:
            warnings.append(f"{place}: {prioritizer.name} is listed more than once, the last one counts")
        seen.add(prioritizer)
        weights[prioritizer] = _weight(place, config, placement.api_version, problems)
    return tuple((prioritizer, weight) for prioritizer, weight in weights.items() if weight)


def _weight(place: str, config: PrioritizerConfig, api_version: str, problems: list[str]) -> int:
    weight = 1 if config.weight is None else config.weight
    least = 0 if config.name or api_version.endswith("v1alpha1") else -10
    if not least <= weight <= 10:
        problems.append(f"{place}.weight is {weight}, expected {least} to 10")
    return weight


def _read(place: str, config: PrioritizerConfig, problems: list[str]) -> Prioritizer | None:
    coordinate = config.score_coordinate
    if (coordinate is None) == (not config.name):
        problems.append(f"{place}: expected either name or scoreCoordinate")
        return None
    if coordinate is None:
        return _named(f"{place}.name", config.name, problems)
    if coordinate.type in ("", "BuiltIn"):
        return _named(f"{place}.scoreCoordinate.builtIn", coordinate.built_in, problems)
    add_on = coordinate.add_on
    if coordinate.type != "AddOn":
        problems.append(f"{place}.scoreCoordinate.type {coordinate.type!r} is unknown, expected BuiltIn or AddOn")
        return None
    if add_on is None or not add_on.resource_name or not add_on.score_name:
        problems.append(f"{place}.scoreCoordinate.addOn: expected resourceName and scoreName")
        return None
    return _add_on(add_on.resource_name, add_on.score_name)


def _add_on(resource: str, score: str) -> Prioritizer:
    return Prioritizer(f"{By.ADDON.value}/{resource}/{score}", By.ADDON, resource, score)


def _named(place: str, name: str, problems: list[str]) -> Prioritizer | None:
    if name in (BALANCE, STEADY):
        return Prioritizer(name, By(name))
    if name.startswith("AddOn/") and name.count("/") == 2 and not name.endswith("/"):
        return _add_on(*name.split("/")[1:])
    for found in _resource_forms(name):
        return found
    forms = ", ".join(f"{form.value}<X>" for form in _RESOURCE_FORMS)
    problems.append(
        f"{place}: unknown prioritizer {name!r}, expected Balance, Steady, AddOn/<resource>/<score> or one of"
        f" {forms} with X = CPU, Memory or :<resource name>"
    )
    return None


def _resource_forms(name: str) -> Iterator[Prioritizer]:
    for form in _RESOURCE_FORMS:
        if name.startswith(form.value):
            rest = name.removeprefix(form.value)
            resource = _SHORT.get(rest, rest.removeprefix(":"))
            if resource and (rest in _SHORT or rest[0] == ":" or rest[0].islower()):
                yield Prioritizer(name, form, resource)
