"""Whatever is kept between cycles decides nothing: with any of it switched off the plans are the same bytes."""

from __future__ import annotations

from random import Random

import pytest

import fairway.scheduler.decide  # noqa: F401  (all declarations)
from fairway.state.derived import REGISTRY
from support.effort import dice, examples
from support.twins import Twins

CYCLES = 6


def run(random: Random, setting: str) -> None:
    twins = Twins(random, setting)
    for _ in range(CYCLES):
        plan = twins.cycle()
        if twins.random.random() < 0.7:
            twins.carry_out(plan)
        for _ in range(twins.random.randint(0, 3)):
            twins.happen()
    twins.check()


@pytest.mark.parametrize("part", range(4))
def test_the_slow_path_gives_the_same_bytes(part: int) -> None:
    for number in range(examples(15, 3000)):
        run(dice("derived off", part, number), "off")


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_each_value_can_be_switched_off_alone(name: str) -> None:
    for number in range(examples(3, 400)):
        run(dice("derived", name, number), f"-{name}")
