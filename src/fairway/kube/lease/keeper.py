"""`LeaseKeeper`: keeps the lease on an event loop, and says when it is won and lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fairway.kube.http.exchange import NO_ANSWER, ApiAnswer, ApiRequest, Sender, explained
from fairway.kube.lease.terms import Elector, Round, Seconds

Sleep = Callable[[Seconds], Awaitable[None]]


class LeaseKeeper:
    """Runs rounds until it is cancelled. `led` is called on the event loop's thread with True when this replica may
    decide, with False once it may not any more: at the renewal deadline at the latest, though an answer is still due.
    `cut_off` is called, before that, when another replica may have led while the server was out of reach. `trouble` is
    told why the lease cannot be had, once for a reason that stays: without it a replica that lacks access would wait
    in silence.
    """

    def __init__(
        self,
        elector: Elector,
        send: Sender,
        led: Callable[[bool], None],
        sleep: Sleep = asyncio.sleep,
        *,
        cut_off: Callable[[], None] = lambda: None,
        trouble: Callable[[str], None] = lambda why: None,
    ) -> None:
        self.elector = elector
        self._send = send
        self._led = led
        self._cut_off = cut_off
        self._trouble = trouble
        self._last_trouble: dict[str, str] = {}
        """By method."""
        self._sleep = sleep
        self._leads = False
        self._alarm: asyncio.TimerHandle | None = None

    async def keep(self) -> None:
        """Never returns. No answer in time is no answer: the next round asks again."""
        limit = self.elector.settings.renew_deadline / 2
        while True:
            wait = await self._run(self.elector.attempt(), limit)
            self._look()
            await self._sleep(wait)

    async def release(self) -> None:
        """At a clean end, after `keep` was cancelled and the last write was answered."""
        await self._run(self.elector.release(), self.elector.settings.retry)
        self._look()

    async def _run(self, rounds: Round, limit: Seconds) -> Seconds:
        answer: ApiAnswer | None = None
        while True:
            try:
                request = next(rounds) if answer is None else rounds.send(answer)
            except StopIteration as end:
                wait: Seconds = end.value
                return wait
            try:
                async with asyncio.timeout(limit):
                    answer = await self._send(request)
            except TimeoutError:
                answer = NO_ANSWER
            self._note(request, answer)

    def _note(self, request: ApiRequest, answer: ApiAnswer) -> None:
        """A lease that is not there yet, and one that another replica was quicker to write, are no trouble."""
        if answer.ok:
            self._last_trouble.pop(request.method, None)
            return
        is_usual = answer.status == 409 or (answer.status == 404 and request.method == "GET")
        why = f"{request.method} {request.path}: {explained(answer)}"
        if not is_usual and why != self._last_trouble.get(request.method):
            self._last_trouble[request.method] = why
            self._trouble(why)

    def _look(self) -> None:
        """Tell if it changed, and look again when the time to write runs out."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self.elector.was_cut_off:
            self.elector.was_cut_off = False
            self._cut_off()
        leads = self.elector.may_write()
        if leads != self._leads:
            self._leads = leads
            self._led(leads)
        if leads:
            self._alarm = asyncio.get_running_loop().call_later(self.elector.time_left, self._look)
