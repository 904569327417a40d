"""From a lane's recorded curve to what fits on the screen: at most two points a column, and no dip lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

import msgspec
from msgspec import Struct

from hivemind.scheduler.types import FailureKind
from hivemind.world.snapshot import CurvePoint, LaneView

SPAN_S = 600.0
"""Longest stretch that memory has; the journal has longer ones."""
SHADE = "⢕"
"""Fills what is in flight, below its curve."""
_SPANS_S = (10.0, 20.0, 30.0, 40.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 420.0, SPAN_S)
"""For a curve that began not long ago, so that it doesn't huddle at the edge."""
_HOUR_S = 3600.0
"""Longer curves are shown in whole hours, those of up to an hour in times of ten minutes."""
TTFT_ROWS_MOST = 12
"""Rows of the plot of times to first token, however high the screen: a line that hardly moves needs no more."""


def job_for(lane: LaneView, width: int, height: int, *, braille: bool = True) -> Job | None:
    """Return the job for a lane's figure in `width` cells and `height` rows; None without a curve or room."""
    if len(lane.curve) < 2 or width < 24 or height < 4:
        return None
    now = lane.curve[-1].at
    span = span_of(lane.curve)
    points = [point for point in lane.curve if now - point.at <= span]
    level = thin(points, now, span, width, lambda point: point.level)
    active = peaks(thin(points, now, span, width, lambda point: float(point.active)), span, width)
    highest = max((y for _, y in [*level, *active]), default=1.0)
    ceiling = lane.state.ceiling if lane.state.ceiling <= 2 * highest else None
    top = max(ceiling or 0.0, highest if ceiling is not None else highest * 1.15)
    return Job(
        width=width,
        height=height,
        span_s=span,
        level=level,
        active=active,
        marks=[
            (point.at - now, point.level, sign.shown(braille), ROLE_CODES.index(sign.role))
            for point in points
            if point.mark and not math.isinf(point.level) and (sign := mark(point.mark))
        ],
        ttft=thin(points, now, span, width, lambda point: point.ttft_s),
        target_s=lane.state.latency_target_s,
        top=float(max(1, math.ceil(top))),
        ceiling=ceiling,
    )


def span_of(curve: Sequence[CurvePoint]) -> float:
    """Return the seconds that are shown of a curve."""
    age = curve[-1].at - curve[0].at if curve else 0.0
    unit = SPAN_S if age <= _HOUR_S else _HOUR_S
    return next((span for span in _SPANS_S if age <= span), math.ceil(age / unit) * unit)


def peaks(points: Points, span_s: float, columns: int) -> Points:
    """Return the highest point of each column, which makes a readable line of a jumping value."""
    return [max(bucket, key=itemgetter(1)) for bucket in _by_column(points, span_s, columns)]


def _by_column(points: Points, span_s: float, columns: int) -> list[Points]:
    buckets: dict[int, Points] = {}
    for x, y in points:
        buckets.setdefault(int((x + span_s) / span_s * (columns - 1)), []).append((x, y))
    return list(buckets.values())


def thin(
    points: Sequence[CurvePoint], now: float, span_s: float, columns: int, value: Callable[[CurvePoint], float | None]
) -> Points:
    """Return the lowest and highest known, finite value of each column; x is seconds before `now`."""
    known = [(point.at - now, y) for point in points if (y := value(point)) is not None and not math.isinf(y)]
    thinned: Points = []
    for bucket in _by_column(known, span_s, columns):
        thinned += sorted({min(bucket, key=itemgetter(1)), max(bucket, key=itemgetter(1))})
    return thinned


class PlotMark(Struct, frozen=True):
    """A sign on the curve."""

    glyph: str
    plain: str
    """On a console whose font has no such glyph."""
    word: str
    role: str

    def shown(self, braille: bool) -> str:
        """Return the sign that this terminal can draw."""
        return self.glyph if braille else self.plain


TURN = PlotMark("▲", "^", "yours", "accent")
"""A change by the operator: a knob tuned, the level pinned."""
NOTE = PlotMark("◉", "*", "note", "info")
"""A note that a person wrote."""
NOTED = "note="
_UNANSWERED = PlotMark("◇", "n", "no answer", "bad")

_MARKS: Mapping[str, PlotMark] = {
    FailureKind.RATE_LIMITED.value: PlotMark("▼", "v", "429", "bad"),
    FailureKind.OVERLOADED.value: PlotMark("◆", "o", "529", "bad"),
    FailureKind.SERVER_ERROR.value: PlotMark("✕", "x", "5xx", "bad"),
    FailureKind.CONNECT.value: _UNANSWERED,
    FailureKind.DISCONNECTED.value: _UNANSWERED,
    FailureKind.TIMEOUT.value: _UNANSWERED,
    FailureKind.TRUNCATED.value: PlotMark("◁", "t", "truncated", "bad"),
    "latency": PlotMark("◷", "s", "slow", "wait"),
    "circuit": PlotMark("■", "#", "circuit", "bad"),
}
_OTHER = PlotMark("○", "?", "other", "bad")


def turned(cause: str) -> bool:
    """Return whether a mark is of a change by the operator, as `aimd.beta=0.7`, or a note, rather than of a cut."""
    return "=" in cause


def mark(cause: str) -> PlotMark:
    """Return the sign for a :attr:`~hivemind.world.snapshot.CurvePoint.mark`."""
    if cause.startswith(NOTED):
        return NOTE
    return TURN if turned(cause) else _MARKS.get(cause, _OTHER)


ROLE_CODES = ("text", "rule", "info", "ok", "recover", "wait", "bad", "accent")
"""Colour roles that a figure is drawn with. Figures name them by index, so a change of theme needs no new figure."""

Points = list[tuple[float, float]]


class Job(msgspec.Struct, frozen=True, array_like=True):
    """A figure to draw: the concurrency level, and the time to first token under it. x is seconds, 0 is now."""

    width: int
    height: int
    span_s: float
    level: Points
    active: Points
    marks: list[tuple[float, float, str, int]]
    """What bent the level: when, the level then, one character, and its role as an index into :data:`ROLE_CODES`."""
    ttft: Points
    target_s: float
    top: float
    """The highest level that the scale must reach."""
    ceiling: float | None
    """Drawn as a line; None where it is none, or beyond the scale."""


class Figure(msgspec.Struct, frozen=True, array_like=True):
    """A drawn figure: rows of text runs, each with its role as an index into :data:`ROLE_CODES`."""

    width: int
    height: int
    rows: list[list[tuple[str, int]]]
