"""What an operator did, as a sentence for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hivemind.scheduler.events import Commanded
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.text.amounts import ceiling
from hivemind.text.humanise import plural

ALL = "all"
"""Whom a command is about that names nobody."""

_SUBJECTS = ("agent", "task", "lane", "upstream")
_NAMED = 4
"""Tasks that a line names; the others are counted."""
SHOWN_BY_EVENTS = frozenset({"BeginAgent", "EndAgent", "ClaimTask", "FinishTask"})
"""Commands of runners, of which the events that they bring about tell."""

Arguments = Mapping[str, Any]


def subject(arguments: Arguments) -> str:
    """Whom a command is about: an agent, a task, a lane, an upstream, or all."""
    return str(next((arguments[name] for name in _SUBJECTS if arguments.get(name)), ALL))


def sentence(event: Commanded, before: str = "") -> str:
    """What was done, without its subject; `before` is what the value was, where that is known."""
    tell = SENTENCES.get(event.name)
    if tell is not None:
        return tell(event.arguments, before)
    about = ", ".join(f"{name} {value}" for name, value in event.arguments.items() if value is not None)
    return f"{event.name} {about}".strip()


def knob_value(knob: str, value: float) -> str:
    """A knob's value as people write it."""
    known = KNOBS.get(knob)
    if value == 0 and known is not None and known.zero_is_none:
        return "none"
    return f"{value:.0f}" if known is not None and known.whole else f"{value:g}"


def _moved(what: str, value: str, before: str) -> str:
    return f"{what} {before} -> {value}" if before and before != value else f"{what} is {value} now"


def _priority(about: Arguments, before: str) -> str:
    return _moved("priority", about["priority"], before)


def _tune(about: Arguments, before: str) -> str:
    return _moved(about["knob"], knob_value(about["knob"], about["value"]), before)


def _pin(about: Arguments, _: str) -> str:
    level = about["level"]
    return "concurrency level back to AIMD" if level is None else f"concurrency level held at {level:g}"


def _circuit(about: Arguments, _: str) -> str:
    return {
        "auto": "circuit goes by itself again",
        "open": "circuit forced open",
        "closed": "circuit forced closed",
        "probe": "circuit lets one probe through",
    }[about["mode"]]


def _admissions(about: Arguments, _: str) -> str:
    return "admissions paused" if about["paused"] else "admissions resumed"


def _pause(about: Arguments, _: str) -> str:
    return "paused" if about["paused"] else "resumed"


def _boost(about: Arguments, _: str) -> str:
    return f"critical for {about['for_s']:g} s" if about["for_s"] > 0 else "boost ended"


def _stop(about: Arguments, before: str) -> str:
    if not about["stopped"]:
        return "may ask again"
    return f"stopped: {before}" if before else "stopped"


def _budget(about: Arguments, before: str) -> str:
    now = ceiling(about["tokens"], about.get("dollars"), about.get("per"), about.get("covers"))
    return "has no budget any more" if now == "none" else _moved("budget", now, before)


def _submit(about: Arguments, _: str) -> str:
    names = about["tasks"]
    shown = ", ".join(map(str, names[:_NAMED])) + (" …" if len(names) > _NAMED else "")
    return f"{plural(len(names), 'task')} added: {shown}"


def _cancel(_: Arguments, __: str) -> str:
    return "cancelled"


def _retry(_: Arguments, __: str) -> str:
    return "to be tried again"


def _forget(about: Arguments, _: str) -> str:
    batch = about["batch"]
    return f"tasks of batch {batch} forgotten" if batch else "tasks of no batch forgotten"


def _drain(about: Arguments, _: str) -> str:
    return "draining: takes no more requests" if about["draining"] else "takes requests again"


def _release(_: Arguments, __: str) -> str:
    return "pause and used-up rate windows ended early"


SENTENCES: Mapping[str, Callable[[Arguments, str], str]] = {
    "SetPriority": _priority,
    "Tune": _tune,
    "PinLevel": _pin,
    "SetCircuit": _circuit,
    "PauseAdmissions": _admissions,
    "PauseAgent": _pause,
    "BoostAgent": _boost,
    "StopAgent": _stop,
    "SetBudget": _budget,
    "Drain": _drain,
    "ReleaseLane": _release,
    "SubmitTasks": _submit,
    "CancelTask": _cancel,
    "RetryTask": _retry,
    "SetTaskPriority": _priority,
    "ForgetTasks": _forget,
}
"""By the command's name."""
