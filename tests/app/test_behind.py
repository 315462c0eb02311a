"""Whether what is shown is behind, by a clock that the test holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairway.app.view.behind import CALM, BehindNotice, LiveFacts, PaceMeter, Reading, live_reading
from fairway.clock import SECOND


class HeldClock:
    """Seconds that the test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Drive:
    """A sandbox at x60 whose steps take as long as the test says."""

    def __init__(self, speed: float = 60.0) -> None:
        self.clock = HeldClock()
        self.meter = PaceMeter(self.clock)
        self.speed = speed
        self.virtual = 0

    def step(self, seconds: float, simulated: float) -> str | None:
        self.meter.begin(self.speed, self.virtual)
        self.clock.now += seconds
        self.virtual += round(simulated * SECOND)
        self.meter.reached(self.virtual)
        return self.meter.behind()

    def steps(self, count: int, seconds: float, simulated: float) -> list[str | None]:
        return [self.step(seconds, simulated) for _ in range(count)]


def test_full_speed_is_never_behind() -> None:
    drive = Drive()
    assert set(drive.steps(200, 0.1, 6)) == {None}


def test_cycles_of_seconds_are_said_with_the_speed_that_is_reached() -> None:
    drive = Drive()
    drive.steps(100, 0.1, 6)
    drive.meter.cycle(5_200_000_000)
    assert drive.steps(3, 5.2, 62.4)[-1] == "x12 of x60, the last cycle took 5.2 s"


def test_the_text_stays_while_the_next_long_step_is_under_way() -> None:
    drive = Drive()
    drive.meter.cycle(5_200_000_000)
    drive.steps(4, 5.2, 62.4)
    drive.meter.begin(60.0, drive.virtual)
    said = set()
    for _ in range(50):
        drive.clock.now += 0.1
        said.add(drive.meter.behind())
    assert said == {"x12 of x60, the last cycle took 5.2 s"}


def test_a_clock_that_stands_still_is_said_before_anything_has_ended() -> None:
    drive = Drive()
    drive.meter.begin(60.0, 0)
    drive.clock.now += 1.5
    assert drive.meter.behind() is None
    drive.clock.now += 5.5
    assert drive.meter.behind() == "the clock has been stopped for 7 s"


def test_a_step_that_takes_far_longer_than_those_before_stands_still() -> None:
    drive = Drive()
    drive.steps(100, 0.1, 6)
    drive.meter.begin(60.0, drive.virtual)
    drive.clock.now += 12
    assert drive.meter.behind() == "the clock has been stopped for 12 s"


def test_speeds_that_cannot_be_reached_are_written_without_exponents() -> None:
    drive = Drive(1_000_000)
    assert drive.steps(40, 0.3, 700)[-1] == "x2300 of x1000000"


def test_it_is_said_no_longer_once_all_has_been_well_for_a_while() -> None:
    drive = Drive()
    drive.steps(20, 0.5, 6)
    said = drive.steps(200, 0.1, 6)
    assert said[0] is not None
    assert said[-1] is None
    first = said.index(None)
    assert set(said[first:]) == {None}
    assert 0.1 * first >= CALM


def test_another_speed_or_a_pause_begins_again() -> None:
    drive = Drive()
    drive.steps(20, 0.5, 6)
    drive.speed = 12.0
    assert drive.step(0.5, 6) is None
    drive.speed = 60.0
    drive.steps(20, 0.5, 6)
    drive.meter.restart()
    drive.clock.now += 3600
    assert drive.meter.behind() is None


@given(st.lists(st.floats(0.5, 1.0), min_size=1, max_size=60))
def test_at_the_limit_it_does_not_flicker(parts: list[float]) -> None:
    """However the speed wavers: between two times at which the text is gone or appears, `CALM` passes."""
    drive = Drive()
    changed: list[float] = []
    last: str | None = None
    for part in parts:
        for said in drive.steps(10, 0.1, 6 * part):
            if (said is None) != (last is None):
                changed.append(drive.clock.now)
            last = said
    gone = changed[1::2]
    assert all(end - begin >= CALM for begin, end in zip(changed[::2], gone, strict=False))


def test_between_behind_and_well_the_text_follows_but_does_not_go() -> None:
    clock = HeldClock()
    notice = BehindNotice(clock)
    assert notice.take(Reading("between", False, False)) is None
    assert notice.take(Reading("slow", True, False)) == "slow"
    clock.now += 2 * CALM
    assert notice.take(Reading("between", False, False)) == "between"
    assert notice.take(Reading("well", False, True)) == "between"
    clock.now += CALM
    assert notice.take(Reading("well", False, True)) is None


def test_a_live_scheduler_that_keeps_up_is_not_behind() -> None:
    assert live_reading(LiveFacts(silent=2, stalled=0.3, cycle=0.4, unseen=0.5))[1:] == (False, True)


def test_the_most_serious_of_what_is_late_is_said() -> None:
    everything = LiveFacts(silent=40, stalled=40, cycle=12, unseen=9)
    assert live_reading(everything).text == "nothing received from the scheduler for 40 s"
    assert live_reading(everything._replace(silent=1)).text == "no cycle finished for 40 s"
    assert live_reading(everything._replace(silent=1, stalled=1)).text == "the last cycle took 12.0 s"
    assert live_reading(LiveFacts(unseen=9)).text == "the view is 9 s old"


def test_a_long_cycle_is_of_interest_while_it_is_recent() -> None:
    assert live_reading(LiveFacts(cycle=12, cycle_age=5)).is_behind
    assert live_reading(LiveFacts(cycle=12, cycle_age=3600)).is_well
