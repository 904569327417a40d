"""What an attempt used, as far as its answer has come."""

from __future__ import annotations

from dataclasses import replace

from hivemind.providers.base import TapState
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Usage

_CHARS_PER_TOKEN = 4


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
