"""The characters and words that stand for states. A state is never told by colour alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hivemind.errors import UsageError
from hivemind.scheduler.types import Priority

VARIABLE = "HIVEMIND_GLYPHS"
"""Says `unicode` or `ascii` where the terminal's own word isn't right."""


@dataclass(frozen=True, slots=True)
class Glyphs:
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
    """Waits for something before it."""
    about: str = "≈"
    ellipsis: str = "…"
    branch: str = "├"
    """Of a tree: to one of several, to the last of them, past others, and one whose branches aren't shown."""
    bend: str = "└"
    trunk: str = "│"
    closed: str = "▸"
    full: str = "━"
    part: str = "╍"
    empty: str = "─"
    marked: str = "◆"
    boost: str = "»"
    ascending: str = "▴"
    descending: str = "▾"
    thumb: str = "┃"
    track: str = "┊"
    queue: str = "░"
    """Pieces of a waterfall: in the queue, a failed attempt, before the first token, the stream."""
    lost: str = "▒"
    asked: str = "▓"
    stream: str = "█"
    frame: str = "╭╮╰╯─│"
    """Corners (top left, top right, bottom left, bottom right), then the horizontal and the vertical line."""
    steps: str = " ▁▂▃▄▅▆▇█"
    """A one-row trend, lowest first."""
    braille: bool = True

    def plain(self, text: str) -> str:
        """The text with the signs of ours that this terminal's font lacks replaced."""
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
    branch="|",
    bend="`",
    trunk="|",
    closed=">",
    full="#",
    part="=",
    empty=".",
    marked="@",
    boost="^",
    ascending="^",
    descending="v",
    thumb="#",
    track=":",
    queue=":",
    lost="x",
    asked="-",
    stream="=",
    frame="++++-|",
    steps=" .:-=+*#@",
    braille=False,
)
"""For the Linux console, whose font has neither blocks nor braille."""


SETS: Mapping[str, Glyphs] = {"unicode": UNICODE, "ascii": ASCII}

_POOR = re.compile(r"(?:.*\.)?(?:linux(?:-.*)?|vt\d+.*|dumb)")


def glyphs_for(environment: Mapping[str, str]) -> Glyphs:
    """The set that the terminal can draw: the one asked for, else by TERM and by the locale's character set.

    Raises: UsageError: there is no such set.
    """
    asked = environment.get(VARIABLE, "")
    if asked:
        if asked not in SETS:
            raise UsageError(f"{VARIABLE} (environment): must be {' or '.join(SETS)}, not {asked[:40]!r}")
        return SETS[asked]
    # The first that is set decides, as for setlocale(3). Where none is, containers mostly, terminals speak UTF-8 still.
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))), "UTF-8")
    poor = _POOR.fullmatch(environment.get("TERM", "")) is not None
    return ASCII if poor or "utf" not in locale.lower() else UNICODE


@dataclass(frozen=True, slots=True)
class Sign:
    """How a state is shown: which glyph, which word, which colour role, and what it means."""

    glyph: str
    """Name of a field of :class:`Glyphs`."""
    word: str
    role: str
    meaning: str


SIGNS: Mapping[str, Sign] = {
    "streaming": Sign("dot", "stream", "ok", "the answer is arriving"),
    "waiting": Sign("ring", "sent", "info", "sent upstream, no content yet"),
    "queued": Sign("clock", "queued", "wait", "waits for a slot or for rate allowance"),
    "retry": Sign("retry", "retry", "recover", "failed upstream; tries again, unseen by the agent"),
    "paused": Sign("pause", "paused", "wait", "its requests are held in the queue"),
    "stopped": Sign("stop", "stopped", "bad", "cut off: what it asks is refused"),
    "spent": Sign("warn", "spent", "bad", "a budget of its is used up"),
    "pending": Sign("after", "pending", "wait", "its task waits for others"),
    "idle": Sign("idle", "idle", "dim", "nothing asked at the moment"),
    "answered": Sign("good", "done", "ok", "answered in full"),
    "failed": Sign("cross", "failed", "bad", "ended in an error that the agent saw"),
    "refused": Sign("warn", "refused", "wait", "HiveMind answered it with an error itself"),
    "left": Sign("arrow", "left", "dim", "the client went before the end"),
    "closed": Sign("dot", "closed", "ok", "requests flow"),
    "half_open": Sign("half", "half-open", "recover", "one probe decides"),
    "open": Sign("cross", "open", "bad", "nothing is sent upstream"),
    "boosted": Sign("boost", "boosted", "accent", "counts as CRITICAL for a while"),
    "marked": Sign("marked", "marked", "accent", "what you do next is done to all of these"),
    "info": Sign("idle", "", "dim", ""),
    "good": Sign("good", "", "ok", ""),
    "warn": Sign("warn", "", "wait", ""),
    "bad": Sign("cross", "", "bad", ""),
    "serving": Sign("dot", "SERVING", "ok", ""),
    "draining": Sign("half", "DRAINING", "wait", ""),
    "attached": Sign("dot", "ATTACHED", "info", "to a proxy that goes on without this screen"),
    "lost": Sign("cross", "LOST", "bad", "nothing comes from the proxy; what is shown is old"),
}
LEGEND = (
    "streaming",
    "waiting",
    "queued",
    "retry",
    "paused",
    "stopped",
    "spent",
    "pending",
    "idle",
    "answered",
    "failed",
    "refused",
    "left",
    "boosted",
    "marked",
    "closed",
    "half_open",
    "open",
)
"""The states that the help explains."""

GATE_SIGNS: Mapping[str, Sign] = {
    "paused": Sign("pause", "paused", "wait", "you paused all admissions"),
    "parked": Sign("clock", "parked", "wait", "the provider asked for a pause"),
    "circuit": Sign("cross", "circuit", "bad", "the circuit is open, so nothing is sent upstream"),
    "slot": Sign("clock", "slot", "wait", "every slot is taken"),
    "upstream": Sign("clock", "upstream", "wait", "all keys together have as many requests in flight as they may"),
    "requests": Sign("clock", "requests", "wait", "the rate window has no request left for it"),
    "tokens": Sign("clock", "tokens", "wait", "the rate window has too few tokens left for it"),
    "budget": Sign("warn", "budget", "bad", "what is left of its agent's budget isn't enough"),
    "held": Sign("pause", "held", "wait", "its agent is paused"),
    "dependency": Sign("after", "task", "wait", "its agent's task waits for others"),
    "backoff": Sign("retry", "backoff", "recover", "it failed upstream and pauses before the next try"),
    "next": Sign("dot", "next", "ok", "nothing holds it: its turn has come"),
}
"""What keeps a request waiting: :data:`hivemind.scheduler.GATES`, and `next`."""

TASK_SIGNS: Mapping[str, Sign] = {
    "waiting": Sign("after", "waits", "wait", "tasks before it aren't done yet"),
    "ready": Sign("ring", "ready", "info", "may be started"),
    "running": Sign("dot", "runs", "ok", "its agent works on it"),
    "done": Sign("good", "done", "ok", "ended well"),
    "failed": Sign("cross", "failed", "bad", "ended badly"),
    "blocked": Sign("warn", "blocked", "wait", "a task before it ended badly; waits for that to be mended"),
    "skipped": Sign("arrow", "skipped", "dim", "a task before it ended badly, so it never runs"),
    "cancelled": Sign("stop", "cancelled", "dim", "not wanted any more"),
}
"""States of a task: :data:`hivemind.scheduler.tasks.graph.TASK_STATES`."""

PHASES: Mapping[str, Sign] = {
    "queue": Sign("queue", "queue", "wait", "waits for a slot or for rate allowance"),
    "failed": Sign("lost", "failed", "bad", "an attempt that came to nothing"),
    "pause": Sign("idle", "pause", "dim", "between two attempts"),
    "first": Sign("asked", "sent", "info", "sent upstream, no content yet"),
    "stream": Sign("stream", "stream", "ok", "the answer arrives"),
}
"""What a waterfall is drawn of."""

_UNKNOWN = Sign("idle", "?", "dim", "")


def sign(state: str) -> Sign:
    """How a state is shown; a state this screen doesn't know yet shows as `?`."""
    return SIGNS.get(state, _UNKNOWN)


def task_sign(state: str) -> Sign:
    """How a task's state is shown."""
    return TASK_SIGNS.get(state, _UNKNOWN)


def gate_sign(gate: str) -> Sign:
    """How a gate is shown; one this screen doesn't know yet goes by its own name."""
    return GATE_SIGNS.get(gate) or Sign("clock", gate[:9], "wait", "")


PRIORITIES: Mapping[Priority, tuple[str, str]] = {
    Priority.CRITICAL: ("CRIT", "accent"),
    Priority.HIGH: ("HIGH", "info"),
    Priority.NORMAL: ("norm", "text"),
    Priority.LOW: ("low", "dim"),
}
"""Short word and colour role of each nice level."""
