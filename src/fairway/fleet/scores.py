"""The prioritizers: which ones a placement weighs, their formulas over all clusters that passed the filters, and the
ranking by the weighted sum.

Prioritizers are named `Balance`, `Steady`, `ResourceAllocatable<X>`, `ResourceRatio<X>`, `ResourceFree<X>` and
`AddOn/<resource>/<score>`, where <X> is `CPU`, `Memory`, or the name of any resource that clusters report, set off with
a colon: `ResourceRatio:nvidia.com/gpu`. Both forms of the API are read, with its modes, defaults and ranges.

A score is a whole number from -100 to 100, truncated toward zero. It is computed in whole numbers: in float64 the ratio
19/20 is worth 89 points, though it is exactly 90. An amount of MISSING means that the cluster does not report the
resource.

Ranks go by points, most first, then by name. A cluster that is already chosen counts as `gain` points better than it
is, less a half: another needs at least that much more to take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.api.fleet import AddOnPlacementScore, Placement, PrioritizerConfig
from fairway.fleet.names import BALANCE, STEADY

IntColumn = npt.NDArray[np.int64]
BoolColumn = npt.NDArray[np.bool_]
ScoreOf = Callable[[str, str], AddOnPlacementScore | None]
"""The scores that an add-on published, by cluster and name."""

MISSING: Final = -1
BEST: Final = 100
WORST: Final = -100


@lru_cache(maxsize=1024)
def balance_table(most: int, weight: int = 1) -> IntColumn:
    """Points by the number of other placements that use a cluster, if the maximum is `most`."""
    scores = 2 * _truncated(50 * most - 100 * np.arange(most + 1), max(most, 1))
    scores[0] = BEST
    scores *= weight
    scores.flags.writeable = False
    return scores


class AmountScale(NamedTuple):
    """The lowest and the highest reported amount."""

    least: int
    most: int

    def score(self, amount: int) -> int | None:
        """The score of `by_amount` for an amount; None if it is outside this scale."""
        if not self.least <= amount <= self.most or self.least == self.most:
            return None
        return _points_of(amount - self.least, self.most - self.least)


def scale_of(amounts: IntColumn, reports: BoolColumn) -> AmountScale | None:
    """None if no cluster reports anything."""
    compared = amounts[reports]
    return AmountScale(int(compared.min()), int(compared.max())) if compared.size else None


def by_amount(amounts: IntColumn, reports: BoolColumn, scale: AmountScale | None, missing: int) -> IntColumn:
    """From -100 for the lowest to 100 for the highest reported amount; `missing` for clusters that do not report. If
    all are equal, all get the best score.
    """
    if scale is None:
        return np.full(amounts.shape, missing, np.int64)
    least, most = scale
    if most == least:
        return np.where(reports, BEST, missing)
    scores = _points(np.where(reports, amounts - least, 0), most - least)
    if not reports.all():
        scores[~reports] = missing
    return scores


def by_ratio(allocatable: IntColumn, capacity: IntColumn, missing: int) -> IntColumn:
    """The fraction of the capacity that is allocatable; more than all of it counts as all."""
    reports = (allocatable >= 0) & (capacity > 0)
    part, whole = np.where(reports, np.minimum(allocatable, capacity), 0), np.where(reports, capacity, 1)
    return np.where(reports, _points(part, whole), missing)


def ratio(allocatable: int, capacity: int, missing: int) -> int:
    """The same for one cluster."""
    if allocatable < 0 or capacity <= 0:
        return missing
    return _points_of(min(allocatable, capacity), capacity)


_MAX_PRODUCT = (1 << 63) // 200
"""Above this 200 times an amount does not fit in 64 bits."""


def _points(part: IntColumn, whole: IntColumn | int) -> IntColumn:
    """(part / whole - 0.5) * 2 * 100, truncated toward zero; a part is at most the whole."""
    if np.max(whole, initial=0) < _MAX_PRODUCT:
        return _truncated(200 * part - 100 * whole, whole)
    wholes = np.broadcast_to(np.asarray(whole), part.shape).tolist()
    found = [_points_of(one, all_) for one, all_ in zip(part.tolist(), wholes, strict=True)]
    return np.array(found, dtype=np.int64)


def _points_of(part: int, whole: int) -> int:
    points = abs(200 * part - 100 * whole) // whole
    return points if 2 * part >= whole else -points


def _truncated(above: IntColumn, below: IntColumn | int) -> IntColumn:
    """The quotient, truncated toward zero, where numpy rounds down."""
    found: IntColumn = (np.sign(above) * (np.abs(above) // below)).astype(np.int64)
    return found


NEVER: Final = 10**9
"""A gain that no cluster can reach: points are a few thousand at most."""


def span(size: int) -> int:
    """By how much a point outweighs all ranks of names in a table of `size` slots."""
    return size + 1


def preference(totals: IntColumn, ranks: IntColumn, size: int, chosen: IntColumn, gain: int) -> IntColumn:
    """A sort key for each cluster, lowest first; all keys differ.

    `ranks` are the ranks of their names among those of all `size` slots; `chosen` marks the chosen clusters.
    """
    wide = span(size)
    keys = totals * (-2 * wide)
    keys += ranks
    if gain and chosen.size:
        keys[chosen] -= (2 * gain - 1) * wide
    return keys


def best(keys: IntColumn, count: int | None) -> IntColumn:
    """The `count` most preferred, in no order."""
    if count is None or count >= keys.size:
        return np.arange(keys.size)
    return keys.argpartition(count)[:count]


def ranked(these: IntColumn, totals: IntColumn, ranks: IntColumn, size: int) -> IntColumn:
    """In rank order: most points first, then by name."""
    return these[(ranks[these] - totals[these] * span(size)).argsort()]


_SHORT = {"CPU": "cpu", "Memory": "memory"}


class By(Enum):
    """What a prioritizer scores."""

    BALANCE = "Balance"
    STEADY = "Steady"
    ALLOCATABLE = "ResourceAllocatable"
    RATIO = "ResourceRatio"
    FREE = "ResourceFree"
    ADDON = "AddOn"


_RESOURCE_FORMS = (By.ALLOCATABLE, By.RATIO, By.FREE)


@dataclass(frozen=True, slots=True)
class Prioritizer:
    """`resource` is the scored resource, or, for an add-on, the name of its AddOnPlacementScore."""

    name: str
    by: By
    resource: str = ""
    score: str = ""


Weights = tuple[tuple[Prioritizer, int], ...]


def weights_of(placement: Placement, problems: list[str], warnings: list[str]) -> Weights:
    """The prioritizers with a weight other than zero, in order of first mention."""
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
