"""Throttled reports of a stream's progress to the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from hivemind.providers.base import TapState
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Usage

EVERY_S = 0.5
_CHARS_PER_TOKEN = 4


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
