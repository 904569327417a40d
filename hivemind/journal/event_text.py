"""Every event as a line for people: in the words of the screen's log if it has any, else in words of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

from hivemind.journal.records import Gap, JournalBegan, JournalEnded, RequestBody, ResponseBody
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage, WindowReading
from hivemind.text.humanise import duration, plural
from hivemind.text.humanise import level as level_text
from hivemind.world.lines import level_line, line_of, sentence, subject
from hivemind.world.state import Carried

Words = tuple[str, str, str, str]
"""Level, tag, who and text, as of :class:`hivemind.world.snapshot.Line`."""
_LONGEST = 300
"""Characters of an event that has no words."""


def describe(event: ev.Event) -> Words:
    """Level, tag, who and text. Never raises: what a damaged line says is shown as it stands."""
    try:
        found = _own_words(event)
        if found is not None:
            return found
        line = line_of(event, 0.0)
        if line is not None:
            return line.level, line.tag, line.who, line.text
        if isinstance(event, ev.Commanded):
            return "info", "command", subject(event.arguments), f"{sentence(event)}, by {event.who}"
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        pass  # values that no event of ours has: its fields are shown
    return "info", _name(event), str(getattr(event, "agent", "") or getattr(event, "lane", "")), _fields(event)


def clock() -> Callable[[float], tuple[str, str]]:
    """What gives day and time of day, local and to the millisecond, of a moment in seconds since the epoch. The day is
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
    pairs = ((name, getattr(event, name)) for name in event.__struct_fields__ if name not in ("at", "agent"))
    text = ", ".join(f"{name} {value}" for name, value in pairs if value not in (None, "", ()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _own_words(event: ev.Event) -> Words | None:
    match event:
        case ev.Arrived(ticket=ticket, model=model):
            guess = f"about {plural(event.estimated_input, 'token')} in, {event.estimated_output:,} out"
            client = f" ({event.client})" if event.client else ""
            kind = f"{'a stream of ' if event.stream else ''}{model or 'no model'}"
            text = f"request {ticket}{client} for {kind}, {event.priority.name.lower()}, {guess}"
            return "info", "arrived", event.agent, text
        case ev.Granted(ticket=ticket, attempt=attempt):
            number = f", attempt {attempt}" if attempt > 1 else ""
            text = f"request {ticket} goes out after {duration(event.waited_s)} in the queue{number}"
            return "info", "granted", event.agent, text
        case ev.Prefill(ticket=ticket):
            return "info", "prefill", event.agent, f"request {ticket}: prefill {event.read:,} of {event.total:,} tokens"
        case ev.FirstContent(ticket=ticket):
            return "info", "first", event.agent, f"request {ticket}: first content after {duration(event.ttft_s)}"
        case ev.WorkLeft(ticket=ticket):
            return "info", "work", event.agent, f"request {ticket}: goes on in the background"
        case ev.PromptCached(ticket=ticket, why=why):
            what = "reads, thanks to its order," if why == "order" else "writes anew"
            return "info", "cached", event.agent, f"request {ticket}: {what} {plural(event.tokens, 'token')}"
        case ev.Progress(ticket=ticket):
            return "info", "progress", event.agent, f"request {ticket}: {plural(event.output_tokens, 'token')} so far"
        case ev.Finished(attempts=0):
            return "info", "used", event.agent, f"{event.model or 'a model'} used beside: {_tokens(event.usage)}"
        case ev.Finished(ticket=ticket, attempts=attempts):
            retried = f" at attempt {attempts}, the agent saw no error" if attempts > 1 else ""
            after = "" if event.duration_s is None else f" after {duration(event.duration_s)}"
            text = f"request {ticket}: answered{after}{retried}; {_tokens(event.usage)}"
            return "good", "retried" if retried else str(event.status), event.agent, text
        case RequestBody(ticket=ticket):
            return "info", "body", "", f"request {ticket}: {event.method} {event.path}, {_kept(event)}"
        case ResponseBody(ticket=ticket):
            what = f"attempt {event.attempt}: answered {event.status}, {_kept(event)}"
            return "info", "body", "", f"request {ticket}, {what}"
        case ev.LevelChanged(cause=cause):
            level = "info" if cause in ev.NO_CUTS else "warn"
            return level, "aimd", event.lane, level_line(event)
        case ev.Sampled():
            lanes = (
                f"{lane.lane}: {lane.active} active, {lane.waiting} waiting, level {level_text(lane.level)}, "
                f"circuit {lane.circuit}"
                for lane in event.lanes
            )
            return "info", "sample", "", "; ".join(lanes) or ("budgets" if event.partial else "no lanes yet")
        case ev.LimitsRead():
            return "info", "limits", event.lane, f"{event.family}: {'; '.join(map(_reading, event.readings))}"
        case ev.TaskAdded():
            after = f", after {', '.join(event.after)}" if event.after else ""
            return "info", "task", event.task, f"added, {event.priority.name.lower()} priority{after}"
        case ev.AgentRecalled():
            facts = [f"priority {event.priority.name.lower()}"] if event.priority is not None else []
            facts += [word for word, holds in (("held", event.paused), ("stopped", event.stopped)) if holds]
            text = f"remembered from before a restart: {', '.join(facts) or 'nothing special'}"
            return "info", "agent", event.agent, text
        case JournalBegan(journal=journal):
            part = f", part {event.part}" if event.part > 1 else ""
            source = "" if event.source == "proxy" else f", made of a recording ({event.source})"
            bodies = ", with bodies" if event.bodies else ""
            return "info", "journal", event.address, f"{journal}{part}, written by {event.program}{source}{bodies}"
        case Carried():
            return "info", "journal", "", "how everything stood when this part began"
        case Gap():
            span = duration(max(0.0, event.at - event.since))
            return "bad", "gap", "", f"{plural(event.lost, 'event')} of the last {span} missing: {event.why}"
        case JournalEnded():
            return "info", "journal", "", "ended in good order"
    return None


def _tokens(usage: Usage | None) -> str:
    if usage is None:
        return "tokens not reported"
    parts = [f"{usage.input_tokens:,} in"]
    parts += [f"{usage.cache_read_tokens:,} from a cache"] if usage.cache_read_tokens else []
    if usage.cache_write_tokens:
        hour = f" ({usage.cache_write_1h_tokens:,} for an hour)" if usage.cache_write_1h_tokens else ""
        parts.append(f"{usage.cache_write_tokens:,} to a cache{hour}")
    estimated = f" ({usage.estimated_tokens:,} estimated)" if usage.estimated_tokens else ""
    tier = f", {usage.tier} tier" if usage.tier else ""
    return f"tokens: {', '.join(parts)}, {usage.output_tokens:,} out{estimated}{tier}"


def _reading(reading: WindowReading) -> str:
    remaining = "?" if reading.remaining is None else f"{reading.remaining:,}"
    limit = "?" if reading.limit is None else f"{reading.limit:,}"
    reset = "" if reading.reset_in_s is None else f", reset in {duration(reading.reset_in_s)}"
    return f"{reading.kind.value} {remaining} of {limit} left{reset}"


def _kept(event: RequestBody | ResponseBody) -> str:
    return f"not kept: {event.left_out}" if event.left_out else f"{len(event.body):,} characters"
