"""The characters and words that stand for states. A state is never told by colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hivemind.scheduler.types import Priority


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One character each, every one a single cell wide."""

    dot: str = "●"
    ring: str = "◌"
    clock: str = "◷"
    retry: str = "↻"
    stop: str = "■"
    cross: str = "✕"
    half: str = "◐"
    warn: str = "▲"
    good: str = "✓"
    idle: str = "·"
    cursor: str = "▌"
    arrow: str = "→"
    about: str = "≈"
    ellipsis: str = "…"
    full: str = "━"
    part: str = "╍"
    empty: str = "─"
    frame: str = "╭╮╰╯─│"
    """Corners (top left, top right, bottom left, bottom right), then the horizontal and the vertical line."""
    steps: str = " ▁▂▃▄▅▆▇█"
    """A one-row trend, lowest first."""
    braille: bool = True

    def plain(self, text: str) -> str:
        """The text with the signs of ours that this terminal's font lacks replaced."""
        return text if self.braille or text.isascii() else text.translate(_PLAIN)


_PLAIN = str.maketrans({"—": "-", "…": "~", "∞": "inf", "→": ">", "·": "."})

UNICODE = Glyphs()
ASCII = Glyphs(
    dot="*",
    ring="o",
    clock="q",
    retry="r",
    stop="#",
    cross="x",
    half="%",
    warn="!",
    good="+",
    idle=".",
    cursor=">",
    arrow=">",
    about="~",
    ellipsis="~",
    full="#",
    part="=",
    empty=".",
    frame="++++-|",
    steps=" .:-=+*#@",
    braille=False,
)
"""For the Linux console, whose font has neither blocks nor braille."""


def glyphs_for(environment: Mapping[str, str]) -> Glyphs:
    """The set that the terminal can draw, by TERM."""
    return ASCII if environment.get("TERM", "") in ("linux", "vt100", "vt220", "dumb") else UNICODE


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
    "paused": Sign("stop", "paused", "wait", "held by you (K lets it go)"),
    "idle": Sign("idle", "idle", "dim", "nothing asked at the moment"),
    "closed": Sign("dot", "closed", "ok", "requests flow"),
    "half_open": Sign("half", "half-open", "recover", "one probe decides"),
    "open": Sign("cross", "open", "bad", "nothing is sent upstream"),
    "info": Sign("idle", "", "dim", ""),
    "good": Sign("good", "", "ok", ""),
    "warn": Sign("warn", "", "wait", ""),
    "bad": Sign("cross", "", "bad", ""),
    "serving": Sign("dot", "SERVING", "ok", ""),
    "draining": Sign("half", "DRAINING", "wait", ""),
}
LEGEND = ("streaming", "waiting", "queued", "retry", "paused", "idle", "closed", "half_open", "open")
"""The states that the help explains."""

_UNKNOWN = Sign("idle", "?", "dim", "")


def sign(state: str) -> Sign:
    """How a state is shown; a state this screen doesn't know yet shows as `?`."""
    return SIGNS.get(state, _UNKNOWN)


PRIORITIES: Mapping[Priority, tuple[str, str]] = {
    Priority.CRITICAL: ("CRIT", "accent"),
    Priority.HIGH: ("HIGH", "info"),
    Priority.NORMAL: ("norm", "text"),
    Priority.LOW: ("low", "dim"),
}
"""Short word and colour role of each nice level."""
