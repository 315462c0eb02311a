"""`LiveRecorder`: records the inputs and decisions of a live scheduler, for `fairway replay`.

    DIR/00000000/policy.json, events.jsonl       parts, named after their first cycle
    DIR/00000412/...

Each part starts with all objects of the state, so that it can be read on its own. A part ends when it has half of the
allowed size, or when the policy changes; then the oldest parts are deleted as long as the recording is too large. Lines
are written as they come, so that what was decided before a crash is there. If writing fails, recording stops and
scheduling continues.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from fairway.app.recordings import OPEN_EVENTS, POLICY, is_part
from fairway.app.records import without_free_text
from fairway.drive import Change, Cycle, Recorder, SchedulerLoop
from fairway.errors import InputError
from fairway.sim.policies import policy_text
from fairway.state.events import Deleted, Event, Upserted
from fairway.state.reader import arrival_order

MEGABYTE = 1 << 20


class LiveRecorder:
    """A listener of the loop."""

    def __init__(
        self,
        folder: Path,
        megabytes: int,
        scheduler: SchedulerLoop,
        scheduler_names: Sequence[str],
        failed: Callable[[str], None],
    ) -> None:
        """InputError if the folder cannot be used."""
        self._folder = folder
        self._max_bytes = megabytes * MEGABYTE
        self._scheduler = scheduler
        self._names = tuple(scheduler_names)
        self._failed = failed
        self._file: BinaryIO | None = None
        self._recorder: Recorder | None = None
        self._policy = scheduler.policy
        self._size = 0
        self._parts: dict[Path, int] = {}
        """The parts that this process wrote, oldest first, with their sizes."""
        self._ended = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.iterdir():
                if is_part(old):
                    raise InputError(f"{old}: already contains a recording, expected an empty folder")
        except OSError as error:
            raise InputError(f"{folder}: cannot be written: {error.strerror}") from None

    # -- the listener ------------------------------------------------------------------------------------------

    def applied(self, events: Sequence[Event]) -> None:
        if self._recorder is not None:
            self._try(lambda: self._write_events(events))

    def decided(self, cycle: Cycle) -> None:
        self._try(lambda: self._write_cycle(cycle))

    def refused(self, change: Change, why: str) -> None:
        """Nothing to do: the outcome of a change shows in the objects."""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = self._recorder = None

    # -- writing -----------------------------------------------------------------------------------------------

    def _write_events(self, events: Sequence[Event]) -> None:
        assert self._recorder is not None
        self._recorder.applied([_slim(event) for event in events])

    def _write_cycle(self, cycle: Cycle) -> None:
        """Called while the state is still the one that was decided on, with all of its events delivered."""
        is_new = self._policy is not self._scheduler.policy
        if self._recorder is None or is_new or self._size > self._max_bytes // 2:
            self._begin(cycle.number)
        assert self._recorder is not None
        assert self._file is not None
        self._recorder.decided(cycle)
        self._file.flush()

    def _begin(self, number: int) -> None:
        self.close()
        self._policy = self._scheduler.policy
        part = self._folder / f"{number:08}"
        part.mkdir()
        (part / POLICY).write_text(policy_text(self._policy))
        self._file = (part / OPEN_EVENTS).open("wb")
        self._parts[part] = self._size = 0
        self._recorder = Recorder(self._write, self._names)
        self._write_events([Upserted(thing) for thing in arrival_order(self._scheduler.store.told())])
        self._forget(part)

    def _forget(self, newest: Path) -> None:
        """Delete the oldest parts while all of them together are too large."""
        for part in [part for part in self._parts if part != newest]:
            if sum(self._parts.values()) > self._max_bytes - self._max_bytes // 4:
                shutil.rmtree(part)
                del self._parts[part]

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        self._file.write(line)
        self._size += len(line)
        self._parts[next(reversed(self._parts))] = self._size

    def _try(self, call: Callable[[], None]) -> None:
        if self._ended:
            return
        try:
            call()
        except OSError as error:
            self._ended = True
            self._failed(f"{error.filename or self._folder}: {error.strerror or error}")
            with contextlib.suppress(OSError):
                self.close()
            self._file = self._recorder = None


def _slim(event: Event) -> Event:
    thing = without_free_text(event.object)
    return Deleted(thing) if isinstance(event, Deleted) else Upserted(thing)
