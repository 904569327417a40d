"""Every event as a line for people: as the log on the screen tells it where it does, and in words of its own else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any

from hivemind.journal.records import Gap, JournalBegan, JournalEnded, RequestBody, ResponseBody
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage
from hivemind.text.humanise import duration
from hivemind.world.lines import line_of, sentence, subject, words
from hivemind.world.state import Carried

Words = tuple[str, str, str, str]
"""Level, tag, who and text, as of :class:`hivemind.world.snapshot.Line`."""
_LONGEST = 300
"""Characters of an event that nobody found words for."""


def describe(event: ev.Event) -> Words:
    """Level, tag, who and text. Never raises: what a damaged line says is told as it stands."""
    try:
        tell = _TELLERS.get(type(event))
        if tell is not None:
            return tell(event)
        line = line_of(event, 0.0)
        if line is not None:
            return line.level, line.tag, line.who, line.text
        if isinstance(event, ev.Commanded):
            return "info", "command", subject(event.arguments), f"{sentence(event)}, by {event.who}"
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        pass  # values that no event of ours has: it is told by its fields
    return "info", _name(event), str(getattr(event, "agent", "") or getattr(event, "lane", "")), _fields(event)


def clock() -> Callable[[float], tuple[str, str]]:
    """What tells day and time of day, local and to the millisecond, of a moment in seconds since the epoch. The day is
    empty where there is no such moment."""
    second = lru_cache(maxsize=16)(_second)  # many events share one

    def shown_at(wall: float) -> tuple[str, str]:
        try:
            thousandths = round(wall * 1000)
            day, shown = second(thousandths // 1000)
        except (OverflowError, ValueError, OSError):
            return "", f"{wall:.3g} s"
        return day, f"{shown}.{thousandths % 1000:03}"

    return shown_at


def _second(wall: int) -> tuple[str, str]:
    """Raises: OverflowError, ValueError, OSError: there is no such time."""
    day, _, shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall)).partition(" ")
    return day, shown


def _name(event: ev.Event) -> str:
    """`lane opened` of a LaneOpened."""
    name = type(event).__name__
    return "".join(f" {each.lower()}" if each.isupper() else each for each in name).strip()


def _fields(event: ev.Event) -> str:
    told_apart = ("at", "agent")
    pairs = ((each.name, getattr(event, each.name)) for each in fields(event) if each.name not in told_apart)
    text = ", ".join(f"{name} {value}" for name, value in pairs if value not in (None, "", ()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _tokens(usage: Usage | None) -> str:
    if usage is None:
        return "tokens not told"
    parts = [f"{usage.input_tokens:,} in"]
    parts += [f"{usage.cache_read_tokens:,} from a cache"] if usage.cache_read_tokens else []
    parts += [f"{usage.cache_write_tokens:,} to a cache"] if usage.cache_write_tokens else []
    return f"tokens: {', '.join(parts)}, {usage.output_tokens:,} out"


def _arrived(event: ev.Arrived) -> Words:
    guess = f"about {event.estimated_input:,} tokens in, {event.estimated_output:,} out"
    of = f" ({event.client})" if event.client else ""
    kind = "a stream of " if event.stream else ""
    text = f"request {event.ticket}{of} for {kind}{event.model or 'no model'}, {event.priority.name.lower()}, {guess}"
    return "info", "arrived", event.agent, text


def _granted(event: ev.Granted) -> Words:
    text = f"request {event.ticket} goes out after {duration(event.waited_s)} in the queue"
    return "info", "granted", event.agent, text + (f", attempt {event.attempt}" if event.attempt > 1 else "")


def _first_content(event: ev.FirstContent) -> Words:
    return "info", "first", event.agent, f"request {event.ticket}: first content after {duration(event.ttft_s)}"


def _progress(event: ev.Progress) -> Words:
    return "info", "progress", event.agent, f"request {event.ticket}: {event.output_tokens:,} tokens so far"


def _finished(event: ev.Finished) -> Words:
    retried = f" at attempt {event.attempts}, the agent saw no error" if event.attempts > 1 else ""
    text = f"request {event.ticket}: answered after {duration(event.duration_s)}{retried}; {_tokens(event.usage)}"
    return "good", "retried" if retried else str(event.status), event.agent, text


def _sampled(event: ev.Sampled) -> Words:
    lanes = (
        f"{each.lane}: {each.active} active, {each.waiting} waiting, level {each.level:.1f}, circuit {each.circuit}"
        for each in event.lanes
    )
    return "info", "sample", "", "; ".join(lanes) or "no lanes yet"


def _limits_read(event: ev.LimitsRead) -> Words:
    readings = (
        f"{each.kind.value} {'?' if each.remaining is None else f'{each.remaining:,}'}"
        f" of {'?' if each.limit is None else f'{each.limit:,}'} left"
        + ("" if each.reset_in_s is None else f", reset in {duration(each.reset_in_s)}")
        for each in event.readings
    )
    return "info", "limits", event.lane, f"{event.family}: {'; '.join(readings)}"


def _task_added(event: ev.TaskAdded) -> Words:
    after = f", after {', '.join(event.after)}" if event.after else ""
    return "info", "task", event.task, f"added, {event.priority.name.lower()} priority{after}"


def _recalled(event: ev.AgentRecalled) -> Words:
    facts = [f"priority {event.priority.name.lower()}"] if event.priority is not None else []
    facts += [word for word, holds in (("paused", event.paused), ("stopped", event.stopped)) if holds]
    return "info", "agent", event.agent, f"remembered from before a restart: {', '.join(facts) or 'nothing special'}"


def _journal_began(event: JournalBegan) -> Words:
    of = f", part {event.part}" if event.part > 1 else ""
    source = "" if event.source == "proxy" else f", made of a recording ({event.source})"
    bodies = ", with bodies" if event.bodies else ""
    return "info", "journal", event.address, f"{event.journal}{of}, written by {event.program}{source}{bodies}"


def _carried(event: Carried) -> Words:
    return "info", "journal", "", "how everything stood when this part began"


def _gap(event: Gap) -> Words:
    text = f"{event.lost:,} events of the last {duration(max(0.0, event.at - event.since))} are missing: {event.why}"
    return "bad", "gap", "", text


def _journal_ended(event: JournalEnded) -> Words:
    return "info", "journal", "", "ended in good order"


def _request_body(event: RequestBody) -> Words:
    what = f"not kept: {event.left_out}" if event.left_out else f"{len(event.body):,} characters"
    return "info", "body", "", f"request {event.ticket}: {event.method} {event.path}, {what}"


def _response_body(event: ResponseBody) -> Words:
    what = f"not kept: {event.left_out}" if event.left_out else f"{len(event.body):,} characters"
    return "info", "body", "", f"request {event.ticket}, attempt {event.attempt}: answered {event.status}, {what}"


def _level(event: ev.LevelChanged) -> Words:
    level = "info" if event.cause in ("grow", "operator") else "warn"
    return level, "aimd", event.lane, f"concurrency level {event.level:.1f} ({words(event.cause)})"


_TELLERS: dict[type[ev.Event], Callable[[Any], Words]] = {
    ev.Arrived: _arrived,
    ev.Granted: _granted,
    ev.FirstContent: _first_content,
    ev.Progress: _progress,
    ev.Finished: _finished,
    ev.LevelChanged: _level,
    ev.Sampled: _sampled,
    ev.LimitsRead: _limits_read,
    ev.TaskAdded: _task_added,
    ev.AgentRecalled: _recalled,
    JournalBegan: _journal_began,
    Carried: _carried,
    Gap: _gap,
    JournalEnded: _journal_ended,
    RequestBody: _request_body,
    ResponseBody: _response_body,
}
"""Those of which the screen's log tells nothing, or less than there is to say."""
