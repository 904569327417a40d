"""What one agent used over time: input and output tokens of its remembered requests, one bar a moment."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.strip import Strip

from hivemind.text.humanise import short_count
from hivemind.world.request_view import RequestView
from hivemind_tui.render.bars import Axis, ending, rounded, times_of_day
from hivemind_tui.render.pen import Pen, Span, fitting
from hivemind_tui.state.view import View

_SCALE = 6
"""Cells for the numbers beside a plot."""
_KINDS = (("in", "info"), ("out", "ok"))


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a plot of the input above one of the output, and the times of day."""
    cells, rows = pen.body_size(width, height)
    agent = view.agent
    own = [request for request in view.requests if agent is not None and request.agent == agent.name]
    if not own or cells <= _SCALE:
        return pen.message("Tokens over time", "Tokens appear here with its first answer.", width, height)
    now = view.snapshot
    start = min(request.arrived_at for request in own)
    axis = ending(start, now.at, cells - _SCALE)
    body = []
    plots = rows - 1
    for (kind, role), used, share in zip(
        _KINDS, spent(own, axis, now.at), (plots - plots // 2, plots // 2), strict=True
    ):
        head = _numbers(kind, used, now.at - start, cells)
        body += _plot(head, role, used, share, cells, pen)
    times = times_of_day(axis, now.wall - now.at, pen.glyphs.frame[5])
    body = [*body[: max(0, rows - 1)], pen.row(cells, (" " * _SCALE + times, "dim"))]
    return pen.frame("Tokens over time", f"a bar is {_bar_s(axis)}, of {len(own)} remembered", body, width, height)


def _bar_s(axis: Axis) -> str:
    return f"{axis.cell_s:.1f}s" if axis.cell_s < 9.95 else rounded(axis.cell_s)


def spent(requests: Sequence[RequestView], axis: Axis, at: float) -> tuple[list[float], list[float]]:
    """Input and output tokens in each of the axis's cells.

    Input counts when its attempt began, output evenly from the first content to the end: when each token came isn't
    kept.
    """
    taken, given = [0.0] * axis.width, [0.0] * axis.width
    # For thousands of requests in every frame: no calls, and each cell's number worked out in place.
    scale, base, edge = 1 / axis.cell_s, axis.first, axis.width - 1
    for request in requests:
        attempts, usage = request.attempts, request.usage
        if not attempts:
            continue
        last, output = attempts[-1], request.output_tokens
        if usage is not None:
            output = usage.output_tokens
            cell = int(last.granted_at * scale - base)
            cell = 0 if cell < 0 else edge if cell > edge else cell
            taken[cell] += usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if output:
            content, ended = last.first_content_at, request.ended_at
            first = int((last.granted_at if content is None else content) * scale - base)
            first = 0 if first < 0 else edge if first > edge else first
            until = int((at if ended is None else ended) * scale - base)
            until = first if until < first else edge if until > edge else until
            if until == first:
                given[first] += output
                continue
            share = output / (until - first + 1)
            for cell in range(first, until + 1):
                given[cell] += share
    return taken, given


def _numbers(kind: str, used: Sequence[float], stretch_s: float, cells: int) -> list[Span]:
    total = sum(used)
    numbers: list[tuple[int, list[Span]]] = [
        (0, [(f"{kind:<{_SCALE}}", "dim"), (short_count(total), "text"), (" in all", "dim")])
    ]
    numbers.append((1, [(short_count(max(used)), "text"), (" at the peak", "dim")]))
    if stretch_s >= 60:
        numbers.append((2, [(short_count(60 * total / stretch_s), "text"), (" a minute", "dim")]))
    return fitting(cells, numbers)


def _plot(numbers: list[Span], role: str, used: Sequence[float], rows: int, cells: int, pen: Pen) -> list[Strip]:
    """Return one plot, below a row of numbers where there are three rows or more."""
    peak = max(used)
    head = [pen.row(cells, *numbers)] if rows >= 3 else []
    plot = rows - len(head)
    body: list[Strip] = []
    for y, line in enumerate(bars(used, peak, plot, pen.glyphs.steps)):
        label = short_count(peak) if y == 0 else "0" if y == plot - 1 else ""
        body.append(pen.row(cells, (f"{label:>{_SCALE - 1}} ", "dim"), (line, role)))
    return head + body


def bars(values: Sequence[float], top: float, rows: int, steps: str) -> list[str]:
    """Upright bars, one a cell, in so many rows, the uppermost first; `steps`: the characters, lowest first.

    Anything above zero shows, however small.
    """
    fine = len(steps) - 1
    heights = [0 if value <= 0 or top <= 0 else max(1, math.ceil(value / top * rows * fine - 1e-9)) for value in values]
    return [
        "".join(steps[max(0, min(fine, height - fine * below))] for height in heights)
        for below in range(rows - 1, -1, -1)
    ]
