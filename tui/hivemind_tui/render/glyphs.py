"""The characters and words for states. No state is shown by colour alone."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hivemind.errors import UsageError
from hivemind.scheduler.types import Priority
from hivemind.world.gates import GATES

VARIABLE = "HIVEMIND_GLYPHS"
"""Environment variable that overrides what the terminal claims: `unicode` or `ascii`."""


class Glyphs(Struct, frozen=True):
    """One character each, every one a single cell wide."""

    dot: str = "●"
    ring: str = "◌"
    clock: str = "◷"
    retry: str = "↻"
    stop: str = "■"
    pause: str = "‖"
    play: str = "►"
    cross: str = "✕"
    half: str = "◐"
    warn: str = "▲"
    good: str = "✓"
    idle: str = "·"
    cursor: str = "▌"
    arrow: str = "→"
    after: str = "⋯"
    about: str = "≈"
    ellipsis: str = "…"
    tree: str = "│├└"
    """Lines past other children, to a child, and to the last one."""
    closed: str = "▸"
    """A folded agent."""
    full: str = "━"
    part: str = "╍"
    empty: str = "─"
    marked: str = "◆"
    pinned: str = "↑"
    boost: str = "»"
    ascending: str = "▴"
    descending: str = "▾"
    thumb: str = "┃"
    track: str = "┊"
    queue: str = "░"
    """Pieces of a waterfall: in the queue, a failed attempt, before the first token, the stream."""
    lost: str = "▒"
    sent: str = "▓"
    stream: str = "█"
    frame: str = "╭╮╰╯─│"
    """Corners (top left, top right, bottom left, bottom right), then the horizontal and the vertical line."""
    steps: str = " ▁▂▃▄▅▆▇█"
    """A one-row trend, lowest first."""
    row_steps: str = " ▁▂▃▄▅▆▇"
    """The same in the rows of a list, where a cell that is full would touch the row above."""
    braille: bool = True

    def plain(self, text: str) -> str:
        """Return the text without signs that this terminal's font lacks."""
        return text if self.braille or text.isascii() else text.translate(_PLAIN)


_PLAIN = str.maketrans({"—": "-", "…": "~", "∞": "inf", "→": ">", "·": ".", "×": "x", "≈": "~"})

UNICODE = Glyphs()
ASCII = Glyphs(
    dot="*",
    ring="o",
    clock="q",
    retry="r",
    stop="#",
    pause="=",
    play=">",
    cross="x",
    half="%",
    warn="!",
    good="+",
    idle=".",
    cursor=">",
    arrow=">",
    after="&",
    about="~",
    ellipsis="~",
    tree="||`",
    closed=">",
    full="#",
    part="=",
    empty=".",
    marked="@",
    pinned="'",
    boost="^",
    ascending="^",
    descending="v",
    thumb="#",
    track=":",
    queue=":",
    lost="x",
    sent="-",
    stream="=",
    frame="++++-|",
    steps=" .:-=+*#@",
    row_steps=" .:-+*#@",
    braille=False,
)
"""For the Linux console, whose font has neither blocks nor braille."""


SETS: Mapping[str, Glyphs] = {"unicode": UNICODE, "ascii": ASCII}

_POOR = re.compile(r"(?:.*\.)?(?:linux(?:-.*)?|vt\d+.*|dumb)")


def glyphs_for(environment: Mapping[str, str]) -> Glyphs:
    """Return the configured set, else the one for TERM and the locale's character set. Raises: UsageError."""
    name = environment.get(VARIABLE, "")
    if name:
        if name not in SETS:
            raise UsageError(f"{VARIABLE} (environment): must be {' or '.join(SETS)}, not {name[:40]!r}")
        return SETS[name]
    # The first that is set decides, as for setlocale(3). Without any, mostly in containers, terminals use UTF-8 anyway.
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))), "UTF-8")
    poor = _POOR.fullmatch(environment.get("TERM", "")) is not None
    return ASCII if poor or "utf" not in locale.lower() else UNICODE


class Sign(Struct, frozen=True):
    """The glyph, word, colour role and meaning of a state."""

    glyph: str
    """Name of a field of :class:`Glyphs`."""
    word: str
    role: str
    meaning: str


LEGEND: Mapping[str, Sign] = {
    "streaming": Sign("dot", "stream", "ok", "the answer is arriving"),
    "waiting": Sign("ring", "sent", "info", "sent upstream, no content yet"),
    "background": Sign("half", "background", "info", "its reply is over; what it began goes on"),
    "hung": Sign("warn", "hung", "bad", "sent, but nothing has come for far longer than is usual"),
    "queued": Sign("clock", "queued", "wait", "waits for a slot or a rate limit"),
    "retry": Sign("retry", "retry", "recover", "failed upstream; it is retried, unseen by the agent"),
    "held": Sign("pause", "held", "wait", "an operator holds its requests in the queue"),
    "stopped": Sign("stop", "stopped", "bad", "stopped: its requests are refused"),
    "spent": Sign("warn", "spent", "bad", "one of its budgets is used up"),
    "pending": Sign("after", "pending", "wait", "its task waits for others"),
    "died": Sign("cross", "died", "bad", "its process crashed or was killed"),
    "idle": Sign("idle", "idle", "dim", "no open request"),
    "ended": Sign("good", "ended", "dim", "its process has ended, or it was silent for long"),
    "answered": Sign("good", "done", "ok", "answered in full"),
    "failed": Sign("cross", "failed", "bad", "the agent got an error"),
    "refused": Sign("warn", "refused", "wait", "HiveMind itself answered with an error"),
    "left": Sign("arrow", "left", "dim", "the client disconnected before the end"),
    "boosted": Sign("boost", "boosted", "accent", "has priority CRITICAL for a while"),
    "marked": Sign("marked", "marked", "accent", "the next command applies to all marked"),
    "pinned": Sign("pinned", "pinned", "accent", "stays on top of the list"),
    "closed": Sign("dot", "closed", "ok", "requests flow"),
    "half_open": Sign("half", "half-open", "recover", "one probe decides"),
    "open": Sign("cross", "open", "bad", "nothing is sent upstream"),
}
"""The states that the help explains."""

SIGNS: Mapping[str, Sign] = {
    **LEGEND,
    "info": Sign("idle", "", "dim", ""),
    "good": Sign("good", "", "ok", ""),
    "warn": Sign("warn", "", "wait", ""),
    "bad": Sign("cross", "", "bad", ""),
}
VERDICT_SIGNS: Mapping[str, Sign] = {
    "healthy": Sign("dot", "HEALTHY", "ok", "requests flow"),
    "slowed": Sign("clock", "SLOWED", "wait", "requests wait for much of their time"),
    "degraded": Sign("warn", "DEGRADED", "wait", "something needs a look, though requests flow"),
    "paused": Sign("pause", "PAUSED", "wait", "the operator holds all requests"),
    "draining": Sign("half", "DRAINING", "wait", "new requests are refused, those in flight finish"),
    "blocked": Sign("cross", "BLOCKED", "bad", "nothing gets through"),
}
"""The states of a verdict: :data:`hivemind.world.health.VERDICTS`."""
_GATE_GLYPHS: Mapping[str, tuple[str, str]] = {
    "paused": ("pause", "wait"),
    "circuit": ("cross", "bad"),
    "budget": ("warn", "bad"),
    "held": ("pause", "wait"),
    "dependency": ("after", "wait"),
    "backoff": ("retry", "recover"),
    "next": ("dot", "ok"),
}
"""Glyph and role of the gates that aren't shown as a clock."""
GATE_SIGNS: Mapping[str, Sign] = {
    name: Sign(glyph, gate.word, role, gate.meaning)
    for name, gate in GATES.items()
    for glyph, role in [_GATE_GLYPHS.get(name, ("clock", "wait"))]
}
"""The gates that hold a request: :data:`hivemind.world.gates.GATES`."""

TASK_SIGNS: Mapping[str, Sign] = {
    "waiting": Sign("after", "waits", "wait", "tasks before it aren't done yet"),
    "ready": Sign("ring", "ready", "info", "may be started"),
    "paused": Sign("clock", "paused", "wait", "a plan's window is used up; starts when that is whole again"),
    "running": Sign("dot", "runs", "ok", "its agent works on it"),
    "done": Sign("good", "done", "ok", "succeeded"),
    "failed": Sign("cross", "failed", "bad", "failed"),
    "blocked": Sign("warn", "blocked", "wait", "a task before it failed; waits for its retry"),
    "skipped": Sign("arrow", "skipped", "dim", "a task before it failed, so it never runs"),
    "cancelled": Sign("stop", "cancelled", "dim", "cancelled by an operator or a batch"),
}
"""States of a task: :data:`hivemind.scheduler.tasks.TASK_STATES`."""

LEASE_SIGNS: Mapping[str, Sign] = {
    "leased": Sign("dot", "leased", "ok", "uses what the fleet leases to it"),
    "idle": Sign("idle", "idle", "dim", "has no lane yet"),
    "joining": Sign("ring", "joining", "wait", "has no lease yet; its requests wait"),
    "learning": Sign("half", "learning", "wait", "the store lost its state, and learns it anew"),
    "safe": Sign("warn", "safe", "wait", "the store is away; it goes on with a safe share of the key"),
    "alone": Sign("cross", "alone", "bad", "disconnected from the store, so it uses next to nothing"),
    "draining": Sign("half", "draining", "wait", "refuses new requests, and ends when those in flight have"),
    "unknown": Sign("idle", "unknown", "dim", "the store is away, so nothing is heard of it"),
    "silent": Sign("cross", "silent", "bad", "wasn't heard of for seconds"),
}
"""How a proxy stands to its fleet: :class:`hivemind.scheduler.lease.LeaseState`, and two more."""

PHASES: Mapping[str, Sign] = {
    "queue": Sign("queue", "queue", "wait", "waits for a slot or a rate limit"),
    "failed": Sign("lost", "failed", "bad", "a failed attempt"),
    "pause": Sign("idle", "delay", "dim", "the pause before a retry"),
    "first": Sign("sent", "sent", "info", "sent upstream, no content yet"),
    "stream": Sign("stream", "stream", "ok", "the answer arrives"),
}
"""The phases of a waterfall."""

_UNKNOWN = Sign("idle", "?", "dim", "")


def sign(state: str) -> Sign:
    """Return how a state is shown; an unknown state is shown as `?`."""
    return SIGNS.get(state, _UNKNOWN)


def task_sign(state: str) -> Sign:
    """Return how a task's state is shown."""
    return TASK_SIGNS.get(state, _UNKNOWN)


def lease_sign(state: str) -> Sign:
    """Return how a proxy's state in its fleet is shown; `paused` and `draining` are the proxy's own."""
    return LEASE_SIGNS.get(state) or SIGNS.get(state, _UNKNOWN)


def gate_sign(gate: str) -> Sign:
    """Return how a gate is shown; an unknown gate is shown by its own name."""
    return GATE_SIGNS.get(gate) or Sign("clock", gate[:9], "wait", "")


PRIORITIES: Mapping[Priority, tuple[str, str]] = {
    Priority.CRITICAL: ("CRIT", "accent"),
    Priority.HIGH: ("HIGH", "info"),
    Priority.NORMAL: ("norm", "text"),
    Priority.LOW: ("low", "dim"),
}
"""Short word and colour role of each priority."""
