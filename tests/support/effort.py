"""How many random examples a property takes, and where they come from.

An ordinary run takes few examples and the same ones everywhere. `make fuzz` (`FAIRWAY_FUZZ`) draws new ones from a
seed; `FAIRWAY_LONG` takes many more, and `FAIRWAY_EXAMPLES=N` takes N of every property, whatever the test says.
`FAIRWAY_MINUTES` ends a fuzz run after that time, each property after its share, and `FAIRWAY_ROUND` repeats one round
of a property (`support.rounds`).

Every `max_examples` in the tests goes through `examples`, or `make fuzz` could not scale it.
"""

import os
from random import Random

LONG = bool(os.environ.get("FAIRWAY_LONG"))
FUZZ = bool(os.environ.get("FAIRWAY_FUZZ"))
SEED = os.environ.get("FAIRWAY_SEED", "")
COUNT = int(os.environ.get("FAIRWAY_EXAMPLES") or 0)
MINUTES = float(os.environ.get("FAIRWAY_MINUTES") or 0)
ROUND = int(os.environ["FAIRWAY_ROUND"]) if os.environ.get("FAIRWAY_ROUND") else None


def examples(ordinary: int, long: int | None = None) -> int:
    """The number of examples of a property; a long run takes twenty times as many unless told
    otherwise. An ordinary run takes half of many: the same examples again find nothing new, `make fuzz` does.
    """
    if COUNT:
        return COUNT
    if LONG:
        return 20 * ordinary if long is None else long
    return min(ordinary, max(20, ordinary // 2))


def dice(*names: object) -> Random:
    """Random numbers for a loop without hypothesis: fixed in an ordinary run, drawn from the seed by `make fuzz`."""
    return Random(" ".join(map(str, (*([SEED] if SEED else []), *names))))
