"""How long a search by random examples goes on: seconds in an ordinary run, minutes where `FAIRWAY_LONG` is set."""

import os

LONG = bool(os.environ.get("FAIRWAY_LONG"))


def examples(ordinary: int, long: int | None = None) -> int:
    """The number of examples of a property; a long run takes twenty times as many unless told otherwise."""
    return (20 * ordinary if long is None else long) if LONG else ordinary
