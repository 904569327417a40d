"""What people type: labels of the screen, with their meanings and where they lead, and sentences that mean a command.

A sentence is a knob and a number ("max concurrency 4", "only 4 in flight"), or an agent and what becomes of it ("alice
high", "kill bob", "budget alice $5").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hivemind.scheduler.types import Priority
from hivemind_tui.render.dials import DIALS


class Label(NamedTuple):
    """What a label of the screen means, and the action that leads to what it names."""

    meaning: str
    action: str


def _at(page: str, meaning: str) -> Label:
    return Label(meaning, f"page('{page}')")


def _by(page: str, column: str, meaning: str) -> Label:
    return Label(meaning, f"sorted_page('{page}', '{column}')")


LABELS: Mapping[str, Label] = {
    "slots": _at("overview", "requests in flight, each in one place at the upstream"),
    "queue": _at("overview", "requests that wait, in the order in which they will be sent"),
    "ETA": _at("overview", "when a waiting request is expected to be sent"),
    "concurrency": _at("tuning", "how many requests may be in flight, over time"),
    "level": _at("tuning", "how many requests may be in flight now, set by AIMD"),
    "AIMD": _at("tuning", "raises the level while all is well, and cuts it on errors and latency"),
    "rate windows": _at("overview", "the provider's limits a minute: used, reserved, left"),
    "used": _at("overview", "of a rate window: what was sent in it"),
    "reserved": _at("overview", "of a rate window: what requests in flight are expected to use"),
    "left": _at("overview", "of a rate window: what may still be sent in it"),
    "runs out": _at("overview", "when a rate window will be used up at this pace"),
    "resets": _at("overview", "when a rate window begins anew"),
    "circuit": Label("opens after many errors, and then nothing is sent", "circuit"),
    **dict.fromkeys(("events", "warnings"), _at("log", "what happened, newest last")),
    **dict.fromkeys(
        ("my changes", "history"), Label("what operators changed, and alerts, in the last 24 h", "changes")
    ),
    **dict.fromkeys(
        ("journal", "yesterday", "replay", "recordings", "circuit's opening"),
        Label("list the journals by day, with openings of the circuit, and play one back", "journals"),
    ),
    **dict.fromkeys(
        ("why", "why slow", "slow"), Label("tuning: what requests waited for in the last ten minutes", "page('tuning')")
    ),
    "tasks": _at("tasks", "the task graph: what runs, what waits for what"),
    "tasks done": _at("tasks", "of the task graph"),
    "fleet": _at("fleet", "the proxies that share a key: who has what of it"),
    "up": _at("overview", "how long the proxy has run"),
    "requests": _at("requests", "every request in memory"),
    "tokens": _by("agents", "out", "what agents sent and were answered"),
    "errors": Label("failed attempts, most of which are retried", "jump('failing')"),
    **dict.fromkeys(("failed", "fail"), _by("agents", "fail", "requests that their agents got an error for")),
    "refused": _by("agents", "refused", "requests that HiveMind itself answered with an error"),
    **dict.fromkeys(("died", "agents died"), Label("agents whose process ended with an error", "jump('failing')")),
    "retried OK": _by("agents", "retried_ok", "requests that succeeded after a failed attempt, unseen by their agents"),
    "recovered": _by("agents", "retried_ok", "agents that a retry kept from an error"),
    "answered": _at("requests", "requests that were answered in full"),
    **dict.fromkeys(
        ("spent", "spend", "money", "costliest"),
        _at("cost", "dollars by agent, model or tree: last hour, today, since start"),
    ),
    "wasted": _by("agents", "cost", "tokens of attempts that failed or whose client left"),
    **dict.fromkeys(
        ("first token", "latency"),
        _by("requests", "ttft", "time to first token: from an attempt to the first content of its answer"),
    ),
    "wait": _by("agents", "waits", "how long requests wait to be sent"),
    "waits": _by("agents", "waits", "the longest wait of an agent's requests now"),
    "waited": _by("requests", "waited", "time in the queue and between attempts"),
    "waits for": _at("overview", "what keeps a waiting request"),
    "total": _by("requests", "took", "from arrival to the last byte, with what it waited"),
    "tries": _by("requests", "tries", "attempts at the upstream"),
    "code": _by("requests", "status", "the status that the agent got"),
    "model": _by("requests", "model", "the model that was asked"),
    "in": _by("agents", "in", "input tokens"),
    "out": _by("agents", "out", "output tokens"),
    "agent": _at("agents", "a client of the proxy with a name of its own"),
    "prio": _by("agents", "prio", "priority: a higher class is served first"),
    "state": _by("agents", "state", "what an agent is doing"),
    "stuck": Label("to the next agent or request in trouble", "jump('failing')"),
    "in flight": _at("overview", "sent upstream and not yet ended"),
    "budget": _by("agents", "budget", "a limit of tokens or dollars"),
    "lane": _at("overview", "an upstream with one credential, UPSTREAM:KEY, of which KEY is a hash"),
    "knobs": _at("tuning", "settings that can be changed while the proxy runs"),
    "retry": _at("tuning", "how failed attempts are tried again"),
    "own rate limits": _at("tuning", "limits of yours, below the provider's"),
    "circuit breaker": _at("tuning", "opens after many errors, and then nothing is sent"),
    "vitals": _at("tuning", "requests, tokens, errors, waits and latency over time"),
}
"""In lower case or as it stands on the screen."""

_SPANS: Mapping[str, Sequence[str]] = {
    "10 min": ("10 min", "10min", "10 minutes", "10m", "ten minutes"),
    "1 h": ("1 h", "1h", "hour", "hours", "1 hour", "60 min"),
    "8 h": ("8 h", "8h", "8 hours"),
    "24 h": ("24 h", "24h", "24 hours", "day", "1 d", "1d"),
    "today": ("today", "todays"),
    "since start": ("since start", "since the start", "start", "total", "all"),
}
"""What people call the spans that can be looked back at."""
_GROUPS = {"agent": "agent", "agents": "agent", "model": "model", "models": "model"}
_GROUPS |= dict.fromkeys(("tree", "trees", "family", "families", "task", "tasks"), "tree")
_COSTS = frozenset(("cost", "costs", "spend", "spent", "spending", "money", "dollars", "price", "csv"))
_PAST_FILLERS = frozenset(("last", "past", "the", "by", "per", "of", "for", "in", "over", "s", "show", "curves"))

_FILLERS = frozenset(
    ("a", "at", "be", "by", "for", "give", "is", "it", "make", "no", "of", "only", "others", "rest", "set", "than")
) | {"the", "to"}
_SAID: Mapping[str, Sequence[str]] = {
    "max_concurrency": ("ceiling", "limit", "slots", "parallel", "in", "flight", "requests", "agents", "once"),
    "aimd.floor": ("minimum",),
    "aimd.latency_target_s": ("ttft", "latency", "token"),
    "circuit.threshold": ("circuit", "opens"),
    "rpm": ("requests", "minute", "per", "rate"),
    "tpm": ("tokens", "minute", "per", "rate"),
    "retry.max_attempts": ("retries", "tries", "max"),
}
"""What people call knobs, besides their names, the paper's and the labels."""
PRIORITIES: Mapping[str, Priority] = {
    **{priority.name.lower(): priority for priority in Priority},
    **{"crit": Priority.CRITICAL, "norm": Priority.NORMAL, "urgent": Priority.CRITICAL},
}
_VERBS: Mapping[str, str] = {
    **dict.fromkeys(("stop", "kill", "end", "block", "abort"), "stop"),
    **dict.fromkeys(("allow", "start", "unstop"), "allow"),
    **dict.fromkeys(("hold", "pause", "freeze"), "hold"),
    **dict.fromkeys(("release", "resume", "continue"), "release"),
    **dict.fromkeys(("boost", "first"), "boost"),
    **dict.fromkeys(("more", "up", "higher", "raise", "prefer"), "more"),
    **dict.fromkeys(("less", "down", "lower"), "less"),
    **dict.fromkeys(("open", "show", "requests", "cost"), "open"),
}
_NUMBER = re.compile(r"\$?\d[\d.,]*[a-zA-Z%]?(?:/\w+)?|none|off")
_SHORTEST = 3
"""Letters of an agent's name that are enough where they are its beginning."""
_OFFERED = 5


def words_of(knob: str) -> frozenset[str]:
    """Return all words that a knob is called by, in lower case."""
    dial = DIALS[knob]
    said = re.split(r"[ ._]", f"{knob} {dial.label} {dial.symbol}".lower())
    return frozenset((*said, *_SAID.get(knob, ()), dial.symbol.lower(), knob))


def knobs_meant(text: str) -> tuple[Sequence[str], str]:
    """Return the knobs that a sentence may mean, the likeliest first, and the value in it; both empty: there is no
    value, or no knob of those words."""
    words = text.lower().replace("=", " ").split()
    values = [word for word in words if _NUMBER.fullmatch(word)]
    asked = {word for word in words if word not in _FILLERS and word not in values}
    if len(values) != 1 or not asked or asked == {"budget"}:  # an agent's, unless it is called the retry budget
        return (), ""
    fitting = [knob for knob in DIALS if asked <= words_of(knob)]
    exact = {word for word in asked if "_" in word or "." in word}
    return sorted(fitting, key=lambda knob: (knob not in exact, len(words_of(knob) - asked))), values[0]


class Looked(NamedTuple):
    """What a sentence wants to look back at."""

    span: str = ""
    """One of :data:`~hivemind.journal.past.SPANS`; empty: it names none."""
    by: str = ""
    """What costs are to be summed by; empty: it doesn't say."""
    costs: bool = False
    """Whether it is about costs."""


def past_meant(text: str) -> Looked | None:
    """Return what a sentence such as "last hour's cost by agent" or "8 h" wants; None: it is about something else."""
    left = f" {' '.join(re.findall(r'[a-z0-9]+', text.lower()))} "
    span = ""
    for name, spoken in _SPANS.items():
        for each in sorted(spoken, key=len, reverse=True):
            if f" {each} " in left:
                span, left = name, left.replace(f" {each} ", " ", 1)
                break
        if span:
            break
    words = [word for word in left.split() if word not in _PAST_FILLERS]
    by = next((_GROUPS[word] for word in words if word in _GROUPS), "")
    costs = any(word in _COSTS for word in words)
    if any(word not in _GROUPS and word not in _COSTS for word in words) or not (span or (by and costs)):
        return None
    return Looked(span, by, costs or bool(by))


class Meant(NamedTuple):
    """What a sentence says of an agent."""

    agent: str
    verb: str
    """`priority`, `budget`, or without a value `stop`, `allow`, `hold`, `release`, `boost`, `more`, `less`, `open`."""
    value: str = ""


def agents_meant(text: str, names: Sequence[str]) -> Sequence[Meant]:
    """Return what a sentence says of one of these agents; of several whose names begin so, of each."""
    words = text.split()
    for at, word in enumerate(words):
        begun = len(word) >= _SHORTEST
        fitting = [name for name in names if name.lower() == word.lower()]
        fitting = fitting or [name for name in names if begun and name.lower().startswith(word.lower())]
        rest = [each.lower() for each in (*words[:at], *words[at + 1 :]) if each.lower() not in _FILLERS]
        if not fitting or not rest:
            continue
        meant = _meant(rest)
        if meant is not None:
            return [Meant(name, *meant) for name in fitting[:_OFFERED]]
    return ()


def _meant(words: Sequence[str]) -> tuple[str, str] | None:
    values = [word for word in words if word not in ("budget", "priority", "prio")]
    if "budget" in words and values:
        return "budget", " ".join(values)
    if len(values) != 1:
        return None
    if values[0] in PRIORITIES:
        return "priority", values[0]
    return (_VERBS[values[0]], "") if values[0] in _VERBS else None
