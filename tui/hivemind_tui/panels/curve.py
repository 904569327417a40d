"""The concurrency level over time with the time to first token under it: plotext's figure, or a sketch of our own."""

from __future__ import annotations

import math

from textual.strip import Strip

from hivemind.scheduler.events import LaneState
from hivemind.snapshot import LaneView
from hivemind_tui.format import level, seconds, whole
from hivemind_tui.ink import Ink, Span, body_size, fitting
from hivemind_tui.plots.braille import braille, columns, steps
from hivemind_tui.plots.sample import job_for
from hivemind_tui.plots.wire import PENS, Figure, Job
from hivemind_tui.view import View, join


def wanted(view: View, width: int, height: int, ink: Ink) -> Job | None:
    """The figure that the panel wants in this size; None where it draws without one."""
    cells, rows = body_size(ink, width, height)
    if view.lane is None or not ink.glyphs.braille:
        return None
    return job_for(view.lane, cells, rows - 1)


def render(view: View, width: int, height: int, ink: Ink, figure: Figure | None = None) -> list[Strip]:
    """The panel's rows: the newest figure where it has the right size, else a sketch; under it the level in words."""
    cells, rows = body_size(ink, width, height)
    lane = view.lane
    if lane is None:
        body = [ink.row(cells, ("The curve begins with the first request.", "dim"))]
        return ink.frame("Concurrency", "", body, width, height)
    if figure is not None and (figure.width, figure.height) == (cells, rows - 1):
        body = [ink.row(cells, *((text, PENS[pen]) for text, pen in runs)) for runs in figure.rows]
    else:
        body = _sketch(lane, cells, rows - 1, ink)
    body.append(ink.row(cells, *_words(lane.state, cells)))
    return ink.frame("Concurrency", join(_how(lane.state), view.lane_note()), body, width, height)


def _how(state: LaneState) -> str:
    return "pinned, a gives it back" if state.pinned else "AIMD automatic"


def _words(state: LaneState, width: int) -> list[Span]:
    slow = state.mean_ttft_s is not None and state.mean_ttft_s > state.latency_target_s
    first = [(f"first token {seconds(state.mean_ttft_s)}", "bad" if slow else "recover")]
    return fitting(
        width,
        [
            (0, [(f"level {level(state.level)}", "ok"), (f" of {whole(state.floor)}-{whole(state.ceiling)}", "dim")]),
            (1, [(f"in flight {state.active}", "info")]),
            (2, [*first, (f" target {seconds(state.latency_target_s)}", "wait")]),
        ],
    )


def _sketch(lane: LaneView, width: int, height: int, ink: Ink) -> list[Strip]:
    job = job_for(lane, width, max(4, height))
    if job is None or height < 1:
        note = "" if height < 1 else "gathering points…"
        return [ink.row(width, (note, "dim"))] * max(0, height)
    curve = job.level or job.active
    top = max(job.top, 1.0)
    if not ink.glyphs.braille:
        return [ink.row(width)] * (height - 1) + [trend(lane, width, ink)]
    rows = braille(columns(curve, job.span_s, (width - 5) * 2), top, height)
    labels = [f"{top:4g} "] + ["     "] * (height - 2) + ["   0 "] if height > 1 else ["     "]
    return [ink.row(width, (label, "dim"), (row, "ok")) for label, row in zip(labels, rows, strict=True)]


def trend(lane: LaneView, width: int, ink: Ink) -> Strip:
    """The level's course as one row of bars."""
    now = lane.curve[-1].at if lane.curve else 0.0
    points = [(point.at - now, point.level) for point in lane.curve if not math.isinf(point.level)]
    span = max(60.0, -points[0][0]) if points else 60.0
    top = max((y for _, y in points), default=1.0)
    return ink.row(width, (steps(columns(points, span, width), top, ink.glyphs.steps), "ok"))
