"""Events and operators' commands in words: one line each, for the log on the screen and in a terminal without one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hivemind.scheduler import events as ev
from hivemind.scheduler.limits import PROBE_S
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.scheduler.types import WindowKind
from hivemind.text.amounts import ceiling, how_used
from hivemind.text.humanise import duration, exit_text, percent, plural
from hivemind.text.humanise import level as level_text
from hivemind.world.snapshot import Line
from hivemind.world.tickets import STOPPED

SHOWN_BY_EVENTS = frozenset({"BeginAgent", "EndAgent", "ClaimTask", "FinishTask"})
"""Commands of runners, which the events that they cause describe."""
YOU = "you"
"""The author of a command that was given on this screen, and the tag of its line."""
ALL = "all"
"""The subject of a command that names none."""
SETTINGS = "settings"
"""Tag of the line about settings that don't count."""
_SUBJECTS = ("agent", "task", "lane", "upstream", "about")
_NAMED = 4
"""Tasks that a line names; the others are counted."""
_WORDS = {"connect": "no connection", "timeout": "timed out"}
_COUNTED = {
    WindowKind.REQUESTS: "requests",
    WindowKind.INPUT: "input tokens",
    WindowKind.OUTPUT: "output tokens",
    WindowKind.TOKENS: "tokens",
    WindowKind.REQUESTS_HOUR: "requests an hour",
    WindowKind.TOKENS_HOUR: "tokens an hour",
    WindowKind.REQUESTS_DAY: "requests a day",
    WindowKind.TOKENS_DAY: "tokens a day",
}
_TASK_LEVELS = {"done": "good", "failed": "bad", "blocked": "warn", "skipped": "warn"}
Words = tuple[str, str, str, str]
"""Level, tag, who and text."""
Arguments = Mapping[str, Any]


def line_of(event: ev.Event, wall: float, before: str = "") -> Line | None:
    """Return the event's line; None for events that happen all the time. `before` is as in :func:`sentence`."""
    if isinstance(event, ev.Commanded):
        return _commanded(event, wall, before)
    tell = _LINES.get(type(event))
    found = None if tell is None else tell(event)
    return None if found is None else Line(event.at, wall, *found)


def words(name: str) -> str:
    """Return a reason, a cause or the kind of a failure in words."""
    return _WORDS.get(name) or name.replace("_", " ")


_LEASES = {
    "joining": ("warn", "waits for the first lease from the fleet"),
    "leased": ("good", "goes on with leases from the fleet"),
    "learning": ("warn", "the fleet learns what was used; nothing more is leased until then"),
    "safe": ("warn", "the fleet's store is away; goes on with a safe share of the limits"),
    "alone": ("bad", "can't reach the fleet, which may go on; sends next to nothing"),
}
"""How a lane stands to the fleet: level and text."""


def _alerted(event: ev.AlertRaised | ev.AlertOver) -> str:
    return event.about or ("pool" if event.rule == "budget" else "proxy")


def _lease_changed(event: ev.LeaseChanged) -> Words | None:
    if not event.entered:
        return None
    level, text = _LEASES.get(event.state, ("info", words(event.state)))
    slots = "no limit on slots" if math.isinf(event.slots) else plural(int(event.slots), "slot")
    return level, "fleet", event.lane, f"{text} ({slots}, {plural(event.members, 'member')})"


def _recognised(event: ev.LaneOpened) -> str:
    begin_at = 0 if event.config is None else event.config.begin_at
    return f"recognised as {event.provider}" + (f": {begin_at} requests at once to begin with" if begin_at else "")


def _of(family: str | None) -> str:
    return "" if family is None else f"{family}: "


def _failed(event: ev.AttemptFailed) -> Words:
    tag = str(event.status) if event.status is not None else words(event.kind.value)
    text = event.message if event.message not in ("", tag) else words(event.kind.value)
    if event.retry_in_s is None:
        return "bad", tag, event.agent, f"{text}; passed on to the agent"
    again = f"in {duration(event.retry_in_s)}" if event.retry_in_s >= 0.05 else "at once"
    return "warn", tag, event.agent, f"{text}; attempt {event.attempt + 1} {again}"


def _reset_doubted(event: ev.ResetDoubted) -> Words:
    span, kind = duration(event.reset_in_s), _COUNTED[event.kind]
    text = f"reply states that no {kind} are left for {span}: one request every {duration(PROBE_S)} at most checks it"
    if event.absurd:
        text = f"reply states a reset of {kind} in {span}, which no rate window has: not believed"
    return "warn", "limits", event.lane, text


def _long_window_foreseen(event: ev.LongWindowForeseen) -> Words:
    text, resets = f"the {event.window} window is {percent(event.used)} used", f"resets in {duration(event.reset_in_s)}"
    if event.ends_in_s is None:
        return "good", "limits", event.lane, f"{text}; at this rate it lasts until it {resets}"
    ends = f"ends in {duration(event.ends_in_s)}" if event.ends_in_s >= 1 else "is used up"
    return "warn", "limits", event.lane, f"{text}; at this rate it {ends}, and it {resets}"


def _assumed_limit_changed(event: ev.AssumedLimitChanged) -> Words:
    limit = f"{_of(event.family or None)}{event.limit:,.0f} {_COUNTED[event.kind]} a minute"
    if event.refused:
        return "warn", "limits", event.lane, f"{limit} from now on, because more were refused; no reply states a limit"
    return "info", "limits", event.lane, f"{limit} is our own assumption, which grows until the upstream refuses"


def _task_changed(event: ev.TaskChanged) -> Words | None:
    note = f": {event.note}" if event.note else ""
    if event.state == "paused":
        return "warn", "task", event.task, f"paused for {duration(event.paused_s)}{note}"
    if event.state == "ready" and note:
        return "warn", "task", event.task, f"to be started again{note}"
    level = _TASK_LEVELS.get(event.state)  # a command's line says that it was cancelled, and by whom
    return None if level is None else (level, "task", event.task, f"{event.state}{note}")


def _agent_ended(event: ev.AgentEnded) -> Words:
    code = event.exit_code
    if code is None:
        return "bad", "agent", event.agent, "lost: its runner is gone"
    text = exit_text(code) if code < 0 else f"ended with {exit_text(code)}"
    if event.paused and code:
        return "warn", "agent", event.agent, f"{text}: a plan's window is used up"
    return "good" if code == 0 else "info" if event.asked else "bad", "agent", event.agent, text


def silent(elsewhere: Sequence[str]) -> str:
    """Return what to say of a run that sent no request on its path; `elsewhere` as of :class:`RunSilent`."""
    text = "sent no request on its own path, so nothing was counted and no budget held"
    return f"{text}; meanwhile its client's requests came as {', '.join(elsewhere)}" if elsewhere else text


def _refused(event: ev.Refused) -> Words | None:
    if event.reason == STOPPED:
        return None  # the line of the command says how many there were
    bounds = f" ({' and '.join(event.bounds)})" if event.bounds else ""
    return "bad", str(event.status), event.agent, f"refused: {words(event.reason)}{bounds}"


def _left(event: ev.Abandoned) -> Words:
    return (
        "info",
        "left",
        event.agent,
        f"the client left {'while its answer came' if event.in_flight else 'in the queue'}",
    )


def _level_changed(event: ev.LevelChanged) -> Words | None:
    if event.cause in ev.NO_CUTS:
        return None
    return "warn", "aimd", event.lane, level_line(event)


def level_line(event: ev.LevelChanged) -> str:
    """Return what the level is now, and why."""
    beyond = "" if event.excess_s is None else f" {duration(event.excess_s)} beyond what its prompts take alone"
    return f"concurrency level {level_text(event.level)} ({words(event.cause)}{beyond})"


def _finished(event: ev.Finished) -> Words | None:
    if event.attempts < 2:
        return None
    return "good", "retried", event.agent, f"answered at attempt {event.attempts}; the agent saw no error"


def _circuit_changed(event: ev.CircuitChanged) -> Words:
    level = {"closed": "good", "half_open": "warn"}.get(event.state, "bad")
    again = "" if event.reopens_in_s is None else f", a probe in {duration(event.reopens_in_s)}"
    return level, "circuit", event.lane, f"{_of(event.family)}{words(event.state)} ({event.cause}){again}"


def _broken(event: ev.InvariantBroken) -> Words:
    level, text = ("good", f"over: {event.text}") if event.over else ("bad", event.text)
    return level, "alarm", event.agent or event.lane or "proxy", f"{event.rule}: {text}"


def _agent_began(event: ev.AgentBegan) -> Words:
    by = "" if event.parent is None else f", by {event.parent}"
    return "info", "agent", event.agent, ("started again" if event.resumed else "started") + by


def _budget_warned(event: ev.BudgetWarned) -> Words:
    level, what = ("bad", "used up") if event.exhausted else ("warn", "runs low")
    return level, "budget", event.agent, f"budget {what}: {how_used(event.state)}"


def _price_unknown(event: ev.PriceUnknown) -> Words:
    so = "it counts as its provider's dearest model (an estimate)" if event.estimated else "so its dollars don't count"
    return "warn", "budget", event.agent, f"the price of {event.model} isn't known, {so}"


def _recording_changed(event: ev.RecordingChanged) -> Words:
    if event.why:
        text = f"can't be written ({event.why}); what happens now may be missing in it"
        return "bad", "journal", "recording", text
    missing = "1 event is" if event.lost == 1 else f"{event.lost:,} events are"
    return "good", "journal", "recording", f"goes on; {missing} missing"


_LINES: Mapping[type[ev.Event], Callable[[Any], Words | None]] = {
    ev.Finished: _finished,
    ev.LevelChanged: _level_changed,
    ev.AttemptFailed: _failed,
    ev.Abandoned: _left,
    ev.Refused: _refused,
    ev.LaneOpened: lambda event: (
        *("info", "lane", event.lane),
        _recognised(event) if event.recognised else f"first request ({event.provider})",
    ),
    ev.LaneRateLimited: lambda it: (
        "warn",
        it.cause,
        it.lane,
        f"{_of(it.family)}rate-limited for {duration(it.for_s)}",
    ),
    ev.LaneReleased: lambda event: ("good", "lane", event.lane, f"{_of(event.family)}rate limit over"),
    ev.CircuitChanged: _circuit_changed,
    ev.LeaseChanged: _lease_changed,
    ev.InvariantBroken: _broken,
    ev.AlertRaised: lambda event: ("bad", "alert", _alerted(event), event.text),
    ev.AlertOver: lambda event: ("good", "alert", _alerted(event), f"over: {event.text}"),
    ev.RunDenied: lambda event: ("warn", "denied", event.agent or "a run", f"{event.asked}: {event.why}"),
    ev.StartRefused: lambda event: ("warn", "agent", event.agent, f"isn't started: {event.why}"),
    ev.AssumedLimitChanged: _assumed_limit_changed,
    ev.ResetDoubted: _reset_doubted,
    ev.LongWindowForeseen: _long_window_foreseen,
    ev.TaskChanged: _task_changed,
    ev.AgentBegan: _agent_began,
    ev.AgentEnded: _agent_ended,
    ev.RunSilent: lambda event: ("warn", "agent", event.agent, silent(event.elsewhere)),
    ev.BoostEnded: lambda event: ("info", "boost", event.agent, "boost over, its own priority again"),
    ev.BudgetWarned: _budget_warned,
    ev.PriceUnknown: _price_unknown,
    ev.SettingsIgnored: lambda event: ("warn", SETTINGS, "file", event.text),
    ev.Noticed: lambda event: ("warn", "notice", "proxy", event.text),
    ev.RecordingChanged: _recording_changed,
}
"""By kind of event: what its line says. An event without an entry has no line; a function may return None too."""


def _commanded(event: ev.Commanded, wall: float, before: str) -> Line | None:
    if event.name in SHOWN_BY_EVENTS:
        return None
    tag, text = tag_of(event.name), sentence(event, before)
    if event.who == YOU:
        tag = YOU
    else:
        text += f", by {event.who}"
    return Line(event.at, wall, "info", tag, subject(event.arguments), text, by=event.who)


# --- Commands ---------------------------------------------------------------------------------------------------------


def tag_of(command: str) -> str:
    """Return the tag of the line about a command of this name: what it changed."""
    return _COMMANDS[command][0] if command in _COMMANDS else "command"


def subject(arguments: Mapping[str, Any]) -> str:
    """Return what a command is about: an agent, a task, a lane, an upstream, or all."""
    return str(next((arguments[name] for name in _SUBJECTS if arguments.get(name)), ALL))


def knob_value(knob: str, value: float) -> str:
    """Return a knob's value in words."""
    known = KNOBS.get(knob)
    if value == 0 and known is not None and known.zero_is_none:
        return "none"
    return f"{value:.0f}" if known is not None and known.whole else f"{value:g}"


def sentence(event: ev.Commanded, before: str = "") -> str:
    """Return what a command did, without its subject; `before` is the value before it, if known."""
    if event.name in _COMMANDS:
        return _COMMANDS[event.name][1](event.arguments, before)
    values = ", ".join(f"{name} {value}" for name, value in event.arguments.items() if value is not None)
    return f"{event.name} {values}".strip()


def _changed(what: str, value: str, before: str) -> str:
    return f"{what} {before} -> {value}" if before and before != value else f"{what} is {value} now"


def _priority_set(about: Arguments, before: str) -> str:
    return _changed("priority", about["priority"], before)


def _level_pinned(about: Arguments, before: str) -> str:
    level = about["level"]
    return "concurrency level back to AIMD" if level is None else f"concurrency level fixed at {level:g}"


def _stopped(about: Arguments, before: str) -> str:
    if not about["stopped"]:
        return "allowed again"
    return f"stopped: {before}" if before else "stopped"


def _cut(about: Arguments, before: str) -> str:
    number = about.get("request")
    which = "request" if number is None else f"request {number}"
    return f"{which} cut, to be sent again" if about.get("retry", True) else f"{which} cut"


def _budget_set(about: Arguments, before: str) -> str:
    now = ceiling(about["tokens"], about.get("dollars"), about.get("per"), about.get("covers"))
    return "has no budget any more" if now == "none" else _changed("budget", now, before)


def _submitted(about: Arguments, before: str) -> str:
    names = about["tasks"]
    more = " …" if len(names) > _NAMED else ""
    return f"{plural(len(names), 'task')} added: {', '.join(map(str, names[:_NAMED]))}{more}"


_CIRCUITS = {
    "auto": "circuit is automatic again",
    "open": "circuit forced open",
    "closed": "circuit forced closed",
    "probe": "circuit lets one probe through",
}
_COMMANDS: Mapping[str, tuple[str, Callable[[Arguments, str], str]]] = {
    "SetPriority": ("priority", _priority_set),
    "SetTaskPriority": ("priority", _priority_set),
    "Tune": ("knob", lambda it, before: _changed(it["knob"], knob_value(it["knob"], it["value"]), before)),
    "PinLevel": ("aimd", _level_pinned),
    "SetCircuit": ("circuit", lambda it, _: _CIRCUITS[it["mode"]]),
    "PauseAdmissions": ("pause", lambda it, _: "everything paused" if it["paused"] else "everything resumed"),
    "PauseAgent": ("hold", lambda it, _: "held" if it["paused"] else "released"),
    "BoostAgent": (
        "boost",
        lambda it, _: f"critical for {duration(it['for_s'])}" if it["for_s"] > 0 else "boost ended",
    ),
    "StopAgent": ("stop", _stopped),
    "CutRequest": ("cut", _cut),
    "SetBudget": ("budget", _budget_set),
    "Drain": ("drain", lambda it, _: "draining: refuses new requests" if it["draining"] else "accepts requests again"),
    "ReleaseLane": ("lane", lambda it, _: "rate limit (Retry-After, used-up windows) ended early"),
    "SubmitTasks": ("task", _submitted),
    "CancelTask": ("task", lambda it, _: "cancelled"),
    "RetryTask": ("task", lambda it, _: "to be tried again"),
    "ForgetTasks": ("task", lambda it, _: f"tasks of {f'batch {b}' if (b := it['batch']) else 'no batch'} forgotten"),
    "Acknowledge": (
        "alert",
        lambda it, _: f"alerts ({r}) acknowledged" if (r := it.get("rule")) else "alerts acknowledged",
    ),
    "AddNote": ("note", lambda it, _: f"note: {it['text']}"),
}
"""By command: what it changed, as the tag of its line, and what it did, from its arguments and the value before."""
