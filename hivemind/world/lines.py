"""Events told as one line each, for the log on the screen and in a terminal without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hivemind.scheduler import events as ev
from hivemind.scheduler.limits.headers import PROBE_S
from hivemind.scheduler.types import WindowKind
from hivemind.text.amounts import how_used
from hivemind.text.humanise import duration
from hivemind.world.sentences import SHOWN_BY_EVENTS, sentence, subject
from hivemind.world.snapshot import Line
from hivemind.world.tickets import STOPPED

_WORDS = {"connect": "no connection", "timeout": "timed out", "truncated": "cut off"}

_COUNTED = {
    WindowKind.REQUESTS: "requests",
    WindowKind.INPUT: "input tokens",
    WindowKind.OUTPUT: "output tokens",
    WindowKind.TOKENS: "tokens",
}

Words = tuple[str, str, str, str]
"""Level, tag, who and text."""


def line_of(event: ev.Event, wall: float, before: str = "") -> Line | None:
    """The line that tells the event, or None for those that happen all the time.

    `before` is what a command found, as :func:`~hivemind.world.sentences.sentence` takes it.
    """
    if type(event) is ev.Commanded:
        if event.name in SHOWN_BY_EVENTS:
            return None
        level, tag, who, text = _commanded(event, before)
        return Line(event.at, wall, level, tag, who, text)
    tell = _TELLERS.get(type(event))
    told = None if tell is None else tell(event)
    if told is None:
        return None
    level, tag, who, text = told
    return Line(event.at, wall, level, tag, who, text)


def words(name: str) -> str:
    """A reason, a cause or the kind of a failure, as people write it."""
    return _WORDS.get(name) or name.replace("_", " ")


def _commanded(event: ev.Commanded, before: str) -> Words:
    who, text = subject(event.arguments), sentence(event, before)
    if event.who == "you":
        return "info", "you", who, text
    return "info", "other", who, f"{text}, by {event.who}"


def _failed(event: ev.AttemptFailed) -> Words:
    tag = str(event.status) if event.status is not None else words(event.kind.value)
    text = event.message if event.message not in ("", tag) else words(event.kind.value)
    if event.retry_in_s is None:
        return "bad", tag, event.agent, f"{text}; passed on to the agent"
    again = f"in {duration(event.retry_in_s)}" if event.retry_in_s >= 0.05 else "at once"
    return "warn", tag, event.agent, f"{text}; attempt {event.attempt + 1} {again}"


def _finished(event: ev.Finished) -> Words | None:
    if event.attempts < 2:
        return None
    return "good", "retried", event.agent, f"answered at attempt {event.attempts}; the agent saw no error"


def _abandoned(event: ev.Abandoned) -> Words:
    where = "while its answer came" if event.flying else "in the queue"
    return "info", "left", event.agent, f"the client left {where}"


def _refused(event: ev.Refused) -> Words | None:
    if event.reason == STOPPED:
        return None  # the command's own line says how many there were
    return "bad", str(event.status), event.agent, f"refused: {words(event.reason)}"


def _level_changed(event: ev.LevelChanged) -> Words | None:
    if event.cause in ("grow", "operator"):
        return None
    return "warn", "aimd", event.lane, f"concurrency level {event.level:.1f} ({words(event.cause)})"


def _circuit_changed(event: ev.CircuitChanged) -> Words:
    level = "good" if event.state == "closed" else "warn" if event.state == "half_open" else "bad"
    again = "" if event.reopens_in_s is None else f", a probe in {duration(event.reopens_in_s)}"
    return level, "circuit", event.lane, f"{words(event.state)} ({event.cause}){again}"


def _parked(event: ev.LaneParked) -> Words:
    return "warn", event.cause, event.lane, f"paused {duration(event.for_s)} by the provider"


def _released(event: ev.LaneReleased) -> Words:
    return "good", "lane", event.lane, "resumed"


def _reset_doubted(event: ev.ResetDoubted) -> Words:
    span, kind = duration(event.reset_in_s), _COUNTED[event.kind]
    if event.absurd:
        text = f"reply states a reset of {kind} in {span}, which no rate window has: not believed"
    else:
        text = (
            f"reply states that no {kind} are left for {span}: one request every {duration(PROBE_S)} at most checks it"
        )
    return "warn", "limits", event.lane, text


def _opened(event: ev.LaneOpened) -> Words:
    return "info", "lane", event.lane, f"first request ({event.provider})"


def _boost_ended(event: ev.BoostEnded) -> Words:
    return "info", "boost", event.agent, "boost over, its own priority again"


def _nudged(event: ev.Nudged) -> Words:
    texts = {1: "uses much, and counts a class lower", -1: "counts a class higher", 0: "counts as usual again"}
    return "info", "feedback", event.agent, texts[event.classes]


def _budget_warned(event: ev.BudgetWarned) -> Words:
    text = how_used(event.state)
    if event.exhausted:
        return "bad", "budget", event.agent, f"budget used up: {text}"
    return "warn", "budget", event.agent, f"budget runs low: {text}"


def _price_unknown(event: ev.PriceUnknown) -> Words:
    return "warn", "budget", event.agent, f"the price of {event.model} isn't known, so its dollars don't count"


def _began(event: ev.AgentBegan) -> Words:
    by = "" if event.parent is None else f", by {event.parent}"
    return "info", "agent", event.agent, ("started again" if event.resumed else "started") + by


def _agent_ended(event: ev.AgentEnded) -> Words:
    if event.exit_code is None:
        return "bad", "agent", event.agent, "lost: its runner is gone"
    if event.exit_code < 0:
        return "bad", "agent", event.agent, f"killed by signal {-event.exit_code}"
    return ("good" if event.exit_code == 0 else "bad"), "agent", event.agent, f"ended with exit code {event.exit_code}"


def _task_changed(event: ev.TaskChanged) -> Words | None:
    """That it was cancelled is told by the command, and by whom."""
    level = {"done": "good", "failed": "bad", "blocked": "warn", "skipped": "warn"}
    note = f": {event.note}" if event.note else ""
    if event.state == "ready" and note:
        return "warn", "task", event.task, f"to be started again{note}"
    return (level[event.state], "task", event.task, f"{event.state}{note}") if event.state in level else None


def _recording_changed(event: ev.RecordingChanged) -> Words:
    if event.why:
        return "bad", "journal", "recording", f"can't be written ({event.why}); what happens now may be missing in it"
    missing = "1 event is" if event.lost == 1 else f"{event.lost:,} events are"
    return "good", "journal", "recording", f"goes on; {missing} missing"


_TELLERS: dict[type[ev.Event], Callable[[Any], Words | None]] = {
    ev.AttemptFailed: _failed,
    ev.Finished: _finished,
    ev.Abandoned: _abandoned,
    ev.Refused: _refused,
    ev.LevelChanged: _level_changed,
    ev.CircuitChanged: _circuit_changed,
    ev.LaneParked: _parked,
    ev.LaneReleased: _released,
    ev.ResetDoubted: _reset_doubted,
    ev.LaneOpened: _opened,
    ev.BoostEnded: _boost_ended,
    ev.Nudged: _nudged,
    ev.BudgetWarned: _budget_warned,
    ev.PriceUnknown: _price_unknown,
    ev.AgentBegan: _began,
    ev.AgentEnded: _agent_ended,
    ev.TaskChanged: _task_changed,
    ev.RecordingChanged: _recording_changed,
}
"""Events that may be worth a line; the others are too many to even look at."""
KINDS_WITH_LINES = frozenset({*_TELLERS, ev.Commanded})
"""They, and commands."""
