"""What a screen on a recording knows beyond the world: where in time it is, and what there is to go to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hivemind_tui.render.glyphs import Sign

KINDS: dict[str, Sign] = {
    "gap": Sign("lost", "gaps", "bad", "lines of the recording are missing"),
    "death": Sign("cross", "failures", "bad", "an agent got an error"),
    "circuit": Sign("half", "circuit", "recover", "it opened, probed, or closed again"),
    "budget": Sign("warn", "budgets", "bad", "one runs low or is used up"),
    "command": Sign("marked", "commands", "accent", "an operator's command"),
    "parked": Sign("clock", "pauses", "wait", "the provider asked for a pause"),
    "ended": Sign("stop", "endings", "dim", "an agent's process ended"),
    "cut": Sign("descending", "cuts", "wait", "the concurrency limit was cut"),
}
"""Of marks, by what they are of; where several fall into one cell, the first of these is shown."""
_OTHER = Sign("dot", "other", "info", "")


def kind_sign(kind: str) -> Sign:
    """How a mark is shown, one of a kind that this screen doesn't know too."""
    return KINDS.get(kind, _OTHER)


class Marked(Protocol):
    """A moment of a recording that is worth a look."""

    @property
    def at(self) -> float:
        """On the recording's clock."""

    @property
    def kind(self) -> str:
        """One of :data:`KINDS`, if nothing newer."""

    @property
    def who(self) -> str:
        """Agent or lane."""

    @property
    def text(self) -> str:
        """What happened, for people."""


class Column(Protocol):
    """A piece of the timeline: how much went on at most."""

    @property
    def active(self) -> int:
        """In flight."""

    @property
    def waiting(self) -> int:
        """In the queue."""


@dataclass(frozen=True, slots=True)
class Playback:
    """One frame's worth of it. Times named `*_at` are on the recording's clock."""

    name: str
    begins_at: float
    ends_at: float
    at: float
    wall_offset_s: float
    speed: float = 1.0
    playing: bool = False
    following: bool = False
    """It stays at the end of what is being written."""
    growing: bool = False
    """It is still being written."""
    loop_from: float | None = None
    loop_to: float | None = None
    marks: Sequence[Marked] = ()
    """Of the kinds that are wanted, by time; of those too close together to be told apart on any screen, one a kind."""
    mark_count: int = 0
    """All of the kinds that are wanted."""
    columns: Sequence[Column | None] = ()
    """Equal pieces of the whole; None: not read yet."""
    known_to: float = 1.0
    """The share that is read through, from the beginning; 1: all."""
    approximate: bool = False
    """What is shown now was put together from the last stretch before it alone."""
    damage: tuple[str, ...] = ()
    """What was found wrong with it."""
    note: str = ""
    """What was come upon last, where a key led there."""
    note_kind: str = ""

    @property
    def wall(self) -> float:
        """Time of day then."""
        return self.at + self.wall_offset_s

    @property
    def at_end(self) -> bool:
        """Nothing more to play."""
        return self.at >= self.ends_at

    def share(self, at: float) -> float:
        """Where on the timeline a moment is, from 0 to 1."""
        length_s = self.ends_at - self.begins_at
        return min(1.0, max(0.0, (at - self.begins_at) / length_s)) if length_s > 0 else 0.0


READ_ONLY = "a recording can't be steered; w simulates other settings"
