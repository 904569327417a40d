"""Events and operators' commands in words: one line each, for the log on the screen and in a terminal without one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hivemind.scheduler import events as ev
from hivemind.scheduler.limits import PROBE_S
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.scheduler.types import WindowKind
from hivemind.text.amounts import ceiling, how_used
from hivemind.text.humanise import duration, exit_text, plural
from hivemind.text.humanise import level as level_text
from hivemind.world.snapshot import Line
from hivemind.world.tickets import STOPPED

SHOWN_BY_EVENTS = frozenset({"BeginAgent", "EndAgent", "ClaimTask", "FinishTask"})
"""Commands of runners, which the events that they cause describe."""
ALL = "all"
"""The subject of a command that names none."""
SETTINGS = "settings"
"""Tag of the line about settings that don't count."""
_SUBJECTS = ("agent", "task", "lane", "upstream", "about")
_NAMED = 4
"""Tasks that a line names; the others are counted."""
_WORDS = {"connect": "no connection", "timeout": "timed out", "truncated": "cut off"}
_COUNTED = {
    WindowKind.REQUESTS: "requests",
    WindowKind.INPUT: "input tokens",
    WindowKind.OUTPUT: "output tokens",
    WindowKind.TOKENS: "tokens",
    WindowKind.REQUESTS_DAY: "requests a day",
    WindowKind.TOKENS_DAY: "tokens a day",
}
_TASK_LEVELS = {"done": "good", "failed": "bad", "blocked": "warn", "skipped": "warn"}
_CIRCUITS = {
    "auto": "circuit is automatic again",
    "open": "circuit forced open",
    "closed": "circuit forced closed",
    "probe": "circuit lets one probe through",
}

_COMMAND_TAGS = {
    "SetPriority": "priority",
    "SetTaskPriority": "priority",
    "Tune": "knob",
    "PinLevel": "aimd",
    "SetCircuit": "circuit",
    "PauseAdmissions": "pause",
    "PauseAgent": "hold",
    "BoostAgent": "boost",
    "StopAgent": "stop",
    "SetBudget": "budget",
    "Drain": "drain",
    "ReleaseLane": "lane",
    "SubmitTasks": "task",
    "CancelTask": "task",
    "RetryTask": "task",
    "ForgetTasks": "task",
    "Acknowledge": "alert",
    "AddNote": "note",
}
"""What a command changed, as the tag of its line."""

Words = tuple[str, str, str, str]
"""Level, tag, who and text."""


def line_of(event: ev.Event, wall: float, before: str = "") -> Line | None:
    """Return the event's line; None for events that happen all the time. `before` is as in :func:`sentence`."""
    found = _words(event, before)
    by = event.who if isinstance(event, ev.Commanded) else ""
    return None if found is None else Line(event.at, wall, *found, by=by)


def words(name: str) -> str:
    """Return a reason, a cause or the kind of a failure in words."""
    return _WORDS.get(name) or name.replace("_", " ")


def _words(event: ev.Event, before: str) -> Words | None:
    match event:
        case ev.Finished():
            if event.attempts < 2:
                return None
            return "good", "retried", event.agent, f"answered at attempt {event.attempts}; the agent saw no error"
        case ev.LevelChanged():
            if event.cause in ("grow", "operator"):
                return None
            return "warn", "aimd", event.lane, f"concurrency level {level_text(event.level)} ({words(event.cause)})"
        case ev.AttemptFailed():
            return _failed(event)
        case ev.Abandoned():
            where = "while its answer came" if event.flying else "in the queue"
            return "info", "left", event.agent, f"the client left {where}"
        case ev.Refused():
            if event.reason == STOPPED:
                return None  # the line of the command says how many there were
            return "bad", str(event.status), event.agent, f"refused: {words(event.reason)}"
        case ev.LaneOpened():
            return "info", "lane", event.lane, f"first request ({event.provider})"
        case ev.LaneParked():
            return "warn", event.cause, event.lane, f"rate-limited for {duration(event.for_s)}"
        case ev.LaneReleased():
            return "good", "lane", event.lane, "rate limit over"
        case ev.CircuitChanged():
            level = {"closed": "good", "half_open": "warn"}.get(event.state, "bad")
            again = "" if event.reopens_in_s is None else f", a probe in {duration(event.reopens_in_s)}"
            return level, "circuit", event.lane, f"{words(event.state)} ({event.cause}){again}"
        case ev.LeaseChanged():
            return _lease_changed(event) if event.entered else None
        case ev.InvariantBroken():
            level, text = ("good", f"over: {event.text}") if event.over else ("bad", event.text)
            return level, "alarm", event.agent or event.lane or "proxy", f"{event.rule}: {text}"
        case ev.AlertRaised():
            return "bad", "alert", _alerted(event), event.text
        case ev.AlertOver():
            return "good", "alert", _alerted(event), f"over: {event.text}"
        case ev.RunDenied():
            return "warn", "denied", event.agent or "a run", f"{event.asked}: {event.why}"
        case ev.StartRefused():
            return "warn", "agent", event.agent, f"isn't started: {event.why}"
        case ev.ResetDoubted():
            return _reset_doubted(event)
        case ev.TaskChanged():
            return _task_changed(event)
        case ev.Commanded():
            return _commanded(event, before)
        case ev.AgentBegan():
            by = "" if event.parent is None else f", by {event.parent}"
            return "info", "agent", event.agent, ("started again" if event.resumed else "started") + by
        case ev.AgentEnded():
            return _agent_ended(event)
        case ev.RunSilent():
            return "warn", "agent", event.agent, silent(event.elsewhere)
        case ev.BoostEnded():
            return "info", "boost", event.agent, "boost over, its own priority again"
        case ev.BudgetWarned():
            level, what = ("bad", "used up") if event.exhausted else ("warn", "runs low")
            return level, "budget", event.agent, f"budget {what}: {how_used(event.state)}"
        case ev.PriceUnknown():
            text = f"the price of {event.model} isn't known, so its dollars don't count"
            return "warn", "budget", event.agent, text
        case ev.SettingsIgnored():
            return "warn", SETTINGS, "file", event.text
        case ev.RecordingChanged():
            if event.why:
                text = f"can't be written ({event.why}); what happens now may be missing in it"
                return "bad", "journal", "recording", text
            missing = "1 event is" if event.lost == 1 else f"{event.lost:,} events are"
            return "good", "journal", "recording", f"goes on; {missing} missing"
    return None


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


def _lease_changed(event: ev.LeaseChanged) -> Words:
    level, text = _LEASES.get(event.state, ("info", words(event.state)))
    slots = "no limit on slots" if math.isinf(event.slots) else plural(int(event.slots), "slot")
    return level, "fleet", event.lane, f"{text} ({slots}, {plural(event.members, 'member')})"


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


def _task_changed(event: ev.TaskChanged) -> Words | None:
    note = f": {event.note}" if event.note else ""
    if event.state == "ready" and note:
        return "warn", "task", event.task, f"to be started again{note}"
    level = _TASK_LEVELS.get(event.state)  # a command's line says that it was cancelled, and by whom
    return None if level is None else (level, "task", event.task, f"{event.state}{note}")


def _agent_ended(event: ev.AgentEnded) -> Words:
    code = event.exit_code
    if code is None:
        return "bad", "agent", event.agent, "lost: its runner is gone"
    text = exit_text(code) if code < 0 else f"ended with {exit_text(code)}"
    return "good" if code == 0 else "info" if event.asked else "bad", "agent", event.agent, text


def silent(elsewhere: Sequence[str]) -> str:
    """Return what to say of a run that sent no request on its path; `elsewhere` as of :class:`RunSilent`."""
    text = "sent no request on its own path, so nothing was counted and no budget held"
    return f"{text}; meanwhile its client's requests came as {', '.join(elsewhere)}" if elsewhere else text


def _commanded(event: ev.Commanded, before: str) -> Words | None:
    if event.name in SHOWN_BY_EVENTS:
        return None
    who, text = subject(event.arguments), sentence(event, before)
    if event.who == "you":
        return "info", "you", who, text
    return "info", _COMMAND_TAGS.get(event.name, "command"), who, f"{text}, by {event.who}"


# --- Commands ---------------------------------------------------------------------------------------------------------


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
    about = event.arguments
    match event.name:
        case "SetPriority" | "SetTaskPriority":
            return _changed("priority", about["priority"], before)
        case "Tune":
            return _changed(about["knob"], knob_value(about["knob"], about["value"]), before)
        case "PinLevel":
            level = about["level"]
            return "concurrency level back to AIMD" if level is None else f"concurrency level pinned at {level:g}"
        case "SetCircuit":
            return _CIRCUITS[about["mode"]]
        case "PauseAdmissions":
            return "everything paused" if about["paused"] else "everything resumed"
        case "PauseAgent":
            return "held" if about["paused"] else "released"
        case "BoostAgent":
            return f"critical for {duration(about['for_s'])}" if about["for_s"] > 0 else "boost ended"
        case "StopAgent":
            stopped = f"stopped: {before}" if before else "stopped"
            return stopped if about["stopped"] else "allowed again"
        case "SetBudget":
            now = ceiling(about["tokens"], about.get("dollars"), about.get("per"), about.get("covers"))
            return "has no budget any more" if now == "none" else _changed("budget", now, before)
        case "Drain":
            return "draining: refuses new requests" if about["draining"] else "accepts requests again"
        case "ReleaseLane":
            return "rate limit (Retry-After, used-up windows) ended early"
        case "SubmitTasks":
            names = about["tasks"]
            more = " …" if len(names) > _NAMED else ""
            return f"{plural(len(names), 'task')} added: {', '.join(map(str, names[:_NAMED]))}{more}"
        case "CancelTask":
            return "cancelled"
        case "RetryTask":
            return "to be tried again"
        case "ForgetTasks":
            return f"tasks of batch {about['batch']} forgotten" if about["batch"] else "tasks of no batch forgotten"
        case "Acknowledge":
            return f"alerts ({about['rule']}) acknowledged" if about.get("rule") else "alerts acknowledged"
        case "AddNote":
            return f"note: {about['text']}"
    values = ", ".join(f"{name} {value}" for name, value in about.items() if value is not None)
    return f"{event.name} {values}".strip()


def _changed(what: str, value: str, before: str) -> str:
    return f"{what} {before} -> {value}" if before and before != value else f"{what} is {value} now"
