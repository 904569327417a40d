"""The signs on a lane's curve, one for each cause of a change, with the word that explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hivemind.scheduler.types import FailureKind


@dataclass(frozen=True, slots=True)
class Mark:
    """A sign on the curve."""

    glyph: str
    plain: str
    """On a console whose font has no such glyph."""
    word: str
    role: str

    def shown(self, braille: bool) -> str:
        """Return the sign that this terminal can draw."""
        return self.glyph if braille else self.plain


TURN = Mark("▲", "^", "yours", "accent")
"""A change by the operator: a knob tuned, the level pinned."""
_UNANSWERED = Mark("◇", "n", "no answer", "bad")

_MARKS: Mapping[str, Mark] = {
    FailureKind.RATE_LIMITED.value: Mark("▼", "v", "429", "bad"),
    FailureKind.OVERLOADED.value: Mark("◆", "o", "529", "bad"),
    FailureKind.SERVER_ERROR.value: Mark("✕", "x", "5xx", "bad"),
    FailureKind.CONNECT.value: _UNANSWERED,
    FailureKind.DISCONNECTED.value: _UNANSWERED,
    FailureKind.TIMEOUT.value: _UNANSWERED,
    FailureKind.TRUNCATED.value: Mark("◁", "t", "cut short", "bad"),
    "latency": Mark("◷", "s", "slow", "wait"),
    "circuit": Mark("■", "#", "circuit", "bad"),
}
_OTHER = Mark("○", "?", "other", "bad")


def turned(cause: str) -> bool:
    """Return whether a mark is of a change by the operator, as `aimd.beta=0.7`, rather than of a cut."""
    return "=" in cause


def mark(cause: str) -> Mark:
    """Return the sign for a :attr:`~hivemind.world.snapshot.CurvePoint.mark`."""
    return TURN if turned(cause) else _MARKS.get(cause, _OTHER)
