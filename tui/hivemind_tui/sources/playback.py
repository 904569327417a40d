"""Playback of a recording: the position, speed and loop that keys change, what one frame shows of them, and moments
as people type them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from hivemind.errors import UsageError
from hivemind.journal.files import parse_moment
from hivemind.providers.times import parse_duration
from hivemind_tui.render.format import clean, clock
from hivemind_tui.render.glyphs import Sign

if TYPE_CHECKING:
    from hivemind.journal.index.activity import ActivityColumn, Mark

KINDS: dict[str, Sign] = {
    "gap": Sign("lost", "gaps", "bad", "lines of the recording are missing"),
    "alarm": Sign("boost", "alarms", "bad", "an invariant was broken, or the event loop held"),
    "alert": Sign("ring", "alerts", "bad", "an alert was raised, by the settings [alerts]"),
    "failed": Sign("cross", "failed", "bad", "a failed request: its agent got an error"),
    "circuit": Sign("half", "circuit", "recover", "it opened, probed, or closed again"),
    "budget": Sign("warn", "budgets", "bad", "one runs low or is used up"),
    "command": Sign("marked", "commands", "accent", "an operator's command"),
    "rate_limited": Sign("clock", "rate limits", "wait", "the provider refused, or asked to wait (Retry-After)"),
    "ended": Sign("stop", "endings", "dim", "an agent's process ended"),
    "cut": Sign("descending", "cuts", "wait", "the concurrency level was cut"),
}
"""Kinds of marks, by priority: where several marks fall into one cell, the first of these is shown."""
OPENED = "opened"
"""Of the marks of a circuit those at which it opened."""
ALSO: Mapping[str, str] = {
    "failed": "errors",
    OPENED: "open opening opened breaker",
    "rate_limited": "429 529 limits retry-after",
    "ended": "died dead crashed exit",
    "cut": "level",
}
"""By kind, what else people call its marks."""
GOALS = {OPENED: Sign("half", "circuit opens", "recover", "after many errors: nothing is sent"), **KINDS}
"""What can be gone to: some marks of a kind, and those of each."""
_OTHER = Sign("dot", "other", "info", "")
READ_ONLY = "a recording can't be steered; w simulates other settings"
FAST = 8.0
"""How fast it plays to a mark that was chosen from the menu."""
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_LONGEST_STEP_S = 0.5
"""A program that was suspended continues where it was."""
_SHORTEST_LOOP_S = 0.1


def kind_sign(kind: str) -> Sign:
    """Return the sign of a kind of marks, which may be one that this version doesn't know."""
    return KINDS.get(kind, _OTHER)


def shown_speed(speed: float) -> str:
    """Return the speed as people write it: `x4`, `x0.25`."""
    return f"x{speed:g}"


class Playback(Struct, frozen=True):
    """The state of the playback in one frame. Times named `*_at` are on the recording's clock."""

    name: str
    begins_at: float
    ends_at: float
    at: float
    wall_offset_s: float
    """From the recording's clock to the time of day, in seconds since the epoch."""
    speed: float = 1.0
    playing: bool = False
    following: bool = False
    """Whether it stays at the end of a recording that grows."""
    growing: bool = False
    """Whether the recording is still being written."""
    loop_from: float | None = None
    loop_to: float | None = None
    marks: Sequence[Mark] = ()
    """By time; of marks that no screen can tell apart only one of each kind."""
    mark_count: int = 0
    """Number of all marks."""
    columns: Sequence[ActivityColumn | None] = ()
    """Activity in pieces of equal length; None: not indexed yet."""
    known_to: float = 1.0
    """The indexed share of the recording; 1: all."""
    approximate: bool = False
    """Whether the world was reconstructed from the events shortly before it alone."""
    damage: tuple[str, ...] = ()
    """What is wrong with the recording."""
    unknown: frozenset[str] = frozenset()
    """What it holds of no request, of :data:`~hivemind.journal.records.UNKNOWN`."""
    note: str = ""
    """The event or mark that a key last led to."""
    note_kind: str = ""

    @property
    def wall(self) -> float:
        """The time of day of the moment shown."""
        return self.at + self.wall_offset_s

    @property
    def at_end(self) -> bool:
        """Whether the end is reached."""
        return self.at >= self.ends_at

    def share(self, at: float) -> float:
        """Return where on the timeline a moment is, from 0 to 1."""
        length_s = self.ends_at - self.begins_at
        return min(1.0, max(0.0, (at - self.begins_at) / length_s)) if length_s > 0 else 0.0


class Transport:
    """A clock that runs at a chosen speed between two moments of a journal, on the journal's time.

    It knows no journal; the present time is passed in.
    """

    def __init__(self, begins_at: float, ends_at: float) -> None:
        self.begins_at = begins_at
        self.ends_at = max(begins_at, ends_at)
        self.at = begins_at
        self.speed = 1.0
        self.playing = False
        self.loop_from: float | None = None
        self.loop_to: float | None = None
        self._now_s: float | None = None

    @property
    def loop(self) -> tuple[float, float] | None:
        """The stretch that is repeated; None: no loop."""
        if self.loop_from is None or self.loop_to is None:
            return None
        return self.loop_from, self.loop_to

    @property
    def at_end(self) -> bool:
        """Whether the end is reached."""
        return self.at >= self.ends_at

    def tick(self, now_s: float) -> float:
        """Return the moment to show now; one before the last moment returned begins a loop again."""
        before, self._now_s = self._now_s, now_s
        if not self.playing or before is None:
            return self.at
        self.at += min(_LONGEST_STEP_S, max(0.0, now_s - before)) * self.speed
        loop = self.loop
        # A user who went on behind the loop's end wants to see what is there.
        if loop is not None and loop[1] <= self.at < loop[1] + 2 * _LONGEST_STEP_S * self.speed:
            self.at = loop[0]
        self.at = min(self.at, self.ends_at)
        return self.at

    def play(self) -> None:
        """Play; at the end, from the beginning (of the loop, if there is one)."""
        self.playing = True
        if self.at_end:
            self.at = self.loop[0] if self.loop is not None else self.begins_at

    def go(self, at: float) -> float:
        """Go to a moment, or to the nearest end, and return it."""
        self.at = max(self.begins_at, min(self.ends_at, at))
        return self.at

    def change_speed(self, step: int) -> None:
        """Change to the next speed up or down."""
        index = SPEEDS.index(self.speed) + step
        self.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, index))]

    def set_loop(self, edge: int) -> None:
        """Begin (0) or end (1) the loop here. An edge beyond the other removes that one."""
        if edge == 0:
            self.loop_from = self.at
            if self.loop_to is not None and self.loop_to < self.at + _SHORTEST_LOOP_S:
                self.loop_to = None
            return
        self.loop_to = self.at
        if self.loop_from is None or self.loop_from > self.at - _SHORTEST_LOOP_S:
            self.loop_from = self.begins_at if self.at > self.begins_at + _SHORTEST_LOOP_S else None

    def unloop(self) -> None:
        """Remove the loop."""
        self.loop_from = self.loop_to = None

    def reaches(self, ends_at: float) -> None:
        """Move the end, of which more is known now."""
        self.ends_at = max(self.begins_at, ends_at)
        self.at = min(self.at, self.ends_at)


HOW = "14:02, +90s, -2m, 5m after the beginning, 50%"
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_STEP = re.compile(r"([+-])\s*(\d+(?:\.\d+)?)\s*s?")
_MINUTE_S = 60.0


def moment_of(text: str, now: Playback) -> float:
    """Return the moment that a text means, on the recording's clock; for a step beyond an end, that end.

    Raises: UsageError: it can't be parsed, or lies outside the recording.
    """
    text = text.strip()
    if share := _SHARE.fullmatch(text):
        at = now.begins_at + min(100.0, float(share[1])) / 100 * (now.ends_at - now.begins_at)
    elif text[:1] in ("+", "-"):
        at = now.at + _step(text)
    else:
        at = _parse_time(text, now)
    return max(now.begins_at, min(now.ends_at, at))


def _step(text: str) -> float:
    plain = _STEP.fullmatch(text)
    length_s = float(plain[2]) if plain is not None else parse_duration(text[1:].strip())
    if length_s is None:
        raise UsageError(f"{clean(text[:40])}: not a length of time; try +90s or -2m")
    return length_s if text[0] == "+" else -length_s


def _parse_time(text: str, now: Playback) -> float:
    begins, ends = now.begins_at + now.wall_offset_s, now.ends_at + now.wall_offset_s
    wall = parse_moment(text, begins)
    if not begins - _MINUTE_S < wall < ends + _MINUTE_S:
        raise UsageError(f"{clean(text[:40])} isn't in the recording, which goes from {clock(begins)} to {clock(ends)}")
    return wall - now.wall_offset_s
