"""Long runs of one property: rounds of a few hundred examples, until there are enough of them or the time is up.

Hypothesis remembers every example of a run, to draw none twice, and has no time limit: twenty thousand examples in one
run need ever more memory, and nothing but a signal ends them early. So a fuzz run calls each property several times,
each time with a seed of its own. What has run counts when the time is up, and a failure is repeated by its round alone.

The time is shared out as the run goes on: a property may use its part of what is left, so time that cheap properties do
not need goes to those after them.
"""

import time
from dataclasses import dataclass
from functools import wraps
from random import Random
from typing import Any

from hypothesis import seed, settings

SIZE = 250
"""Examples of a round: few enough to end soon after the time is up, enough for the start of a round to cost nothing."""


@dataclass
class Budget:
    """The time of a run, for properties that several processes take one after the other."""

    seconds: float
    properties: int
    """In all processes together."""
    processes: int = 1
    begun: float = 0.0
    taken: int = 0
    """By this process: it does not hear from the others, and assumes that they are as far as it is."""

    def next_deadline(self) -> float:
        """When the next property has to end."""
        now = time.monotonic()
        self.begun = self.begun or now
        waiting = max(self.properties - self.taken * self.processes, self.processes)
        self.taken += 1
        left = max(self.begun + self.seconds - now, 0.0)
        return now + left * self.processes / waiting


@dataclass
class Tally:
    """What has run of a property so far."""

    rounds: int = 0
    examples: int = 0
    """Those that passed; examples that the property does not apply to are not counted."""
    cpu: float = 0.0


class Rounds:
    """A property and the rounds of it that a run takes."""

    def __init__(self, test: Any, name: str, tally: Tally) -> None:
        self._test, self._name, self._tally = test, name, tally

    def play(self, arguments: dict[str, Any], count: int, deadline: float | None = None) -> None:
        """Rounds until there are `count` examples, or until the deadline; one in any case."""
        for number in range(-(-count // SIZE)):
            self.play_one(number, min(SIZE, count - number * SIZE), arguments)
            if deadline is not None and time.monotonic() >= deadline:
                return

    def play_one(self, number: int, count: int, arguments: dict[str, Any]) -> None:
        test, tally = self._test, self._tally
        inner, usual = test.hypothesis.inner_test, test._hypothesis_internal_use_settings

        @wraps(inner)
        def counted(*args: Any, **kwargs: Any) -> None:
            inner(*args, **kwargs)
            tally.examples += 1

        test.hypothesis.inner_test = counted
        test._hypothesis_internal_use_settings = settings(usual, max_examples=count)
        seed(Random(f"{self._name} {number}").getrandbits(64))(test)
        tally.rounds, begun = number + 1, time.process_time()
        try:
            test(**arguments)
        finally:
            tally.cpu += time.process_time() - begun
            test.hypothesis.inner_test, test._hypothesis_internal_use_settings = inner, usual
