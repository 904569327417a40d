"""Streams on their way to the client: passed on as they come, their progress reported, their usage estimated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from hivemind.providers.base import Steps, Tap, TapState
from hivemind.proxy.server_protocol import Cycle
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Usage
from hivemind.upstream.response import NativeResponse

EVERY_S = 0.5
"""Between two reports of progress."""
_CHARS_PER_TOKEN = 4


class Splice:
    """Writes what comes from upstream to one client at once, without a task in between, and has the tap read it."""

    __slots__ = ("_cycle", "_progress", "_response", "_stopped", "_tap")

    def __init__(self, response: NativeResponse, cycle: Cycle, tap: Tap, progress: ProgressReporter) -> None:
        self._response = response
        self._cycle = cycle
        self._tap = tap
        self._progress = progress
        self._stopped: asyncio.Future[Steps | None] | None = None

    async def run(self) -> Steps | None:
        """Pass data on until something must be waited for: the client, which takes nothing; the end of the stream; or
        long work of the tap, which is returned."""
        self._stopped = asyncio.get_running_loop().create_future()
        self._response.watch(self._passed)
        try:
            self._passed()  # what has come meanwhile, or the end
            return await self._stopped
        finally:
            self._response.watch(None)

    def _passed(self) -> None:
        response, cycle, stopped = self._response, self._cycle, self._stopped
        assert stopped is not None
        steps = None
        if data := response.take():
            cycle.pass_on(data)
            steps = self._tap.feed(data)
            self._progress.content()
        if (steps is not None or cycle.flow.write_paused or not response.growing) and not stopped.done():
            stopped.set_result(steps)
            response.watch(None)


class ProgressReporter:
    """Calls `report` within half a second of new content, and no more often than that.

    So the scheduler soon knows what an agent got, even if a long silence follows.
    """

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        self._timer: asyncio.TimerHandle | None = None

    def content(self) -> None:
        """Note that content came."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._expired)

    def stop(self) -> None:
        """Report nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        self._timer = None
        self._report()


def output_tokens(state: TapState | None) -> int:
    """Return the output tokens so far, estimated by the characters that came."""
    return 0 if state is None else state.output_chars // _CHARS_PER_TOKEN


def usage_so_far(ticket: Ticket, state: TapState | None, *, unmetered: bool) -> Usage | None:
    """Return what the provider counted, else an estimate by what came or, where it never counts, by the request."""
    if state is None:
        return None
    if state.usage is None and unmetered:
        return Usage(input_tokens=ticket.estimated_input, output_tokens=ticket.estimated_output)
    guess = output_tokens(state)
    if state.gave_up and not state.usage_final:
        guess = max(guess, ticket.estimated_output)
    elif state.usage is not None and (state.usage_final or not guess):
        return state.usage
    if state.usage is not None:
        return replace(state.usage, output_tokens=max(state.usage.output_tokens, guess))
    return Usage(input_tokens=ticket.estimated_input, output_tokens=guess) if guess else None
