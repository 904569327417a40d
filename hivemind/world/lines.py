"""Events told as one line each, for the log on the screen and in a terminal without one."""

from __future__ import annotations

from hivemind.scheduler import events as ev
from hivemind.snapshot import Line

_TELLING = frozenset(
    {
        ev.AttemptFailed,
        ev.Finished,
        ev.Abandoned,
        ev.Refused,
        ev.LevelChanged,
        ev.CircuitChanged,
        ev.LaneParked,
        ev.LaneReleased,
        ev.LaneOpened,
        ev.Commanded,
    }
)
"""Events that may be worth a line; the others are too many to even look at."""


def line_of(event: ev.Event, wall: float) -> Line | None:
    """The line that tells the event, or None for those that happen all the time."""
    told = _told(event) if type(event) in _TELLING else None
    if told is None:
        return None
    level, tag, who, text = told
    return Line(event.at, wall, level, tag, who, text)


def _told(event: ev.Event) -> tuple[str, str, str, str] | None:
    match event:
        case ev.AttemptFailed():
            return _failed(event)
        case ev.Finished() if event.attempts > 1:
            return "good", "saved", event.agent, f"answered at attempt {event.attempts}; the agent saw no error"
        case ev.Abandoned():
            where = "while its answer came" if event.flying else "in the queue"
            return "info", "left", event.agent, f"the client left {where}"
        case ev.Refused():
            return "bad", str(event.status), event.agent, f"refused: {event.reason.replace('_', ' ')}"
        case ev.LevelChanged() if event.cause != "grow":
            return "warn", "aimd", event.lane, f"concurrency level {event.level:.1f} ({event.cause.replace('_', ' ')})"
        case ev.CircuitChanged():
            level = "good" if event.state == "closed" else "warn" if event.state == "half_open" else "bad"
            again = "" if event.reopens_in_s is None else f", a probe in {event.reopens_in_s:.0f} s"
            return level, "circuit", event.lane, f"{event.state.replace('_', ' ')} ({event.cause}){again}"
        case ev.LaneParked():
            return "warn", event.cause, event.lane, f"the provider asks for a pause of {event.for_s:.1f} s"
        case ev.LaneReleased():
            return "good", "lane", event.lane, "goes on"
        case ev.LaneOpened():
            return "info", "lane", event.lane, f"first request ({event.provider})"
        case ev.Commanded():
            what = ", ".join(f"{name} {value}" for name, value in event.arguments.items() if value is not None)
            return "info", "you" if event.who == "you" else "by", event.who, f"{event.name} {what}".strip()
    return None


def _failed(event: ev.AttemptFailed) -> tuple[str, str, str, str]:
    tag = str(event.status) if event.status is not None else event.kind.value.replace("_", " ")
    text = event.message or event.kind.value.replace("_", " ")
    if event.retry_in_s is None:
        return "bad", tag, event.agent, f"{text}; passed on to the agent"
    return "warn", tag, event.agent, f"{text}; attempt {event.attempt + 1} in {event.retry_in_s:.1f} s"
