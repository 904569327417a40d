"""The story of one request in words, put together when somebody asks for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from hivemind.scheduler.events import AttemptFailed, Finished, Refused
from hivemind.scheduler.types import Usage
from hivemind.text.humanise import duration, plural
from hivemind.world.lifecycle import Attempt
from hivemind.world.lines import words
from hivemind.world.request_view import DECISIONS_KEPT, Decision
from hivemind.world.tickets import Note, TicketFold


def decisions(ticket: TicketFold) -> tuple[Decision, ...]:
    """Oldest first; the first and the last of them where there are too many."""
    told = [_arrived(ticket)]
    told += [_noted(note) for note in ticket.notes or ()]
    for attempt in ticket.attempts:
        told += _attempted(attempt)
    told.sort(key=_at)
    told += _ended(ticket)
    if len(told) > DECISIONS_KEPT:
        del told[DECISIONS_KEPT // 2 : DECISIONS_KEPT // 2 + len(told) - DECISIONS_KEPT]
    return tuple(told)


def _at(decision: Decision) -> float:
    return decision.at


def _arrived(ticket: TicketFold) -> Decision:
    arrived = ticket.arrived
    tokens = f"about {arrived.estimated_input:,} tokens in, {arrived.estimated_output:,} out"
    return Decision(arrived.at, f"arrived with priority {arrived.priority.name.lower()}, {tokens}")


def _attempted(attempt: Attempt) -> list[Decision]:
    granted, failed = attempt.granted, attempt.failed
    waited = f"after {duration(granted.waited_s)}" if granted.waited_s >= 0.05 else "at once"
    told = [Decision(granted.at, f"granted {waited}, attempt {granted.attempt}")]
    if attempt.first_content_at is not None:
        told.append(Decision(attempt.first_content_at, f"first content {_after(attempt.first_content_at, granted.at)}"))
    if failed is not None:
        told.append(_failed(failed, granted.at))
    return told


def _failed(failed: AttemptFailed, granted_at: float) -> Decision:
    what = f"{failed.status} {words(failed.kind.value)}" if failed.status is not None else words(failed.kind.value)
    text = f"attempt {failed.attempt} failed {_after(failed.at, granted_at)}: {what}"
    if failed.message:
        text += f" ({failed.message})"
    if failed.retry_in_s is None:
        return Decision(failed.at, f"{text}; passed on to the agent", "bad")
    again = f"again in {duration(failed.retry_in_s)}" if failed.retry_in_s > 0 else "again as soon as its turn comes"
    return Decision(failed.at, f"{text}; {again}, unseen by the agent", "warn")


def _ended(ticket: TicketFold) -> list[Decision]:
    end = ticket.end
    if isinstance(end, Finished):
        level = "good" if end.attempts > 1 else "info"
        text = f"answered with {end.status} after {duration(end.duration_s)}{_used(end.usage)}"
        return [Decision(end.at, text, level)]
    if end is None or isinstance(end, AttemptFailed):
        return []
    if ticket.state == "stopped":
        return [Decision(end.at, "ended: the operator stopped its agent", "bad")]
    if isinstance(end, Refused):
        return [Decision(end.at, f"refused with {end.status}: {words(end.reason)}", "bad")]
    return [Decision(end.at, f"the client left {'while its answer came' if end.flying else 'in the queue'}", "warn")]


def _used(usage: Usage | None) -> str:
    if usage is None:
        return ", tokens unknown"
    cached = f" ({usage.cache_read_tokens:,} from cache)" if usage.cache_read_tokens else ""
    return f": {plural(usage.total_input, 'token')} in{cached}, {usage.output_tokens:,} out"


def _after(at: float, since: float) -> str:
    return f"after {duration(at - since)}"


# --- What held it, and what the operator did ----------------------------------------------------------------------


def _noted(note: Note) -> Decision:
    at, what, numbers = note
    if what == "priority":
        return Decision(at, f"priority is {numbers[0]} now, by {numbers[1]}")
    if what == "boost":
        return Decision(at, _boosted(*numbers))
    return Decision(at, HELD[what](*numbers) if what in HELD else f"waits: {words(what)}")


def _boosted(for_s: Any, who: Any) -> str:
    return f"its agent counts as critical for {for_s:g} s, by {who}" if for_s > 0 else f"boost ended, by {who}"


def _slot(ahead: int, level: float, opens_in_s: float | None) -> str:
    limit = "no limit" if math.isinf(level) else f"limit {math.floor(level)}"
    return f"waits for a slot: {_line(ahead)}, {limit}{_opens(opens_in_s)}"


def _room_in(window: str) -> Callable[..., str]:
    return lambda ahead, _, opens_in_s: f"waits for room in the window of {window}: {_line(ahead)}{_opens(opens_in_s)}"


def _line(ahead: int) -> str:
    return f"{ahead} ahead" if ahead else "next in line"


def _because(reason: str) -> Callable[..., str]:
    return lambda ahead, level, opens_in_s: f"waits: {reason}{_opens(opens_in_s)}"


def _opens(opens_in_s: float | None) -> str:
    return "" if opens_in_s is None else f", about {duration(opens_in_s)} to go"


HELD: Mapping[str, Callable[..., str]] = {
    "paused": _because("admissions are paused"),
    "parked": _because("the provider asked for a pause"),
    "circuit": _because("the circuit is open"),
    "slot": _slot,
    "upstream": _because("its upstream has as many requests in flight as it may"),
    "requests": _room_in("requests"),
    "tokens": _room_in("tokens"),
    "budget": _because("its agent's budget is used up"),
    "held": _because("its agent is paused"),
    "dependency": _because("its agent's task waits for others"),
    "backoff": _because("it was tried and will be again"),
}
"""What is said of each gate, from how many are ahead, the lane's level, and when the gate opens."""
