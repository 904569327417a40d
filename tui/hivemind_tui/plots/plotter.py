"""The plotting process: `python -m hivemind_tui.plots.plotter` reads jobs from its input and answers with figures.

A process of its own, because plotext keeps one global figure and takes milliseconds of pure computing for each: in the
proxy's own process that would be milliseconds of latency for every agent. It ends when its input does.
"""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import plotext

from hivemind.text.humanise import short_span
from hivemind_tui.loop.child import messages, send
from hivemind_tui.plots.canvas import columns
from hivemind_tui.plots.sample import ROLE_CODES, SHADE, TTFT_ROWS_MOST, Figure, Job, Points

_FIRST_CODE = 100
"""Pens are plotext's palette colours from here on: none of its own defaults is among them."""
_TIMES = 2
"""Rows of the time axis."""
_TICKS_S = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 18_000, 43_200, 86_400, 259_200, 604_800)
"""Between two ticks of the time axis."""
_SCALE = 7
"""Cells of a value with its unit at the left."""
_SGR = re.compile(r"\x1b\[([0-9;]*)m")


def draw(job: Job) -> Figure:
    """Draw a job with plotext."""
    figure = plotext.figure
    figure.clear.all()
    plotext.terminal.limit(False, False)
    figure.plot_size(job.width, job.height)
    under = max(5, min(TTFT_ROWS_MOST, job.height * 2 // 5)) if job.height >= 9 and job.ttft else 0
    if not under:
        _level(figure, job, job.height, with_time=True)
    else:
        figure.subplots(2, 1)
        upper, lower = figure.subplot(1, 1), figure.subplot(2, 1)
        upper.plot_size(job.width, job.height - under)
        lower.plot_size(job.width, under)
        _level(upper, job, job.height - under, with_time=False)
        _ttft(lower, job, under)
    rows = [_runs(line) for line in figure.build().string().rstrip("\n").split("\n")]
    upper = job.height - under if under else job.height - _TIMES
    return Figure(job.width, job.height, [_shaded(row, job, at, upper) for at, row in enumerate(rows)])


def _shaded(runs: list[tuple[str, int]], job: Job, row: int, height: int) -> list[tuple[str, int]]:
    """Return a row of the level's plot with what is empty below the requests in flight shaded."""
    cells = [(letter, code) for text, code in runs for letter in text]
    begin = next((at for at, (letter, _) in enumerate(cells) if letter in "┤│"), len(cells)) + 1
    if row >= height or begin >= len(cells):
        return runs
    values = columns(job.active, job.span_s, job.width - begin)
    cells += [(" ", 0)] * (job.width - len(cells))
    lowest = (height - 1 - row) / max(1, height - 1) * job.top
    shade = SHADE, ROLE_CODES.index("info")
    for at, value in enumerate(values, begin):
        if cells[at][0] in " ⠀" and value is not None and value >= lowest:
            cells[at] = shade
    return [("".join(letter for letter, _ in run), code) for code, run in groupby(cells, key=itemgetter(1))]


def _pixel(code: str) -> Any:
    return plotext.pixel(foreground=_FIRST_CODE + ROLE_CODES.index(code))


def _curve(plot: Any, points: Points, code: str, marker: str = "braille") -> None:
    if not points:
        return
    xs, ys = [x for x, _ in points], [y for _, y in points]
    drawn = plotext.marker(marker, pixel=_pixel(code))
    plot.draw(plot.signal(xs, ys, marker=drawn).lines(True).density("full"))


def _axes(plot: Any, job: Job, top: float, unit: str, height: int, with_time: bool) -> None:
    plot.theme("colorless")
    for axis, side in (("x", "upper"), ("y", "right")):
        plot.axes(False, axis=axis, side=side)
    plot.axes(True, pixel=_pixel("rule"), axis="y", side="left")
    plot.axes(with_time, pixel=_pixel("rule"), axis="x", side="lower")
    ticks, names = time_ticks(job.span_s) if with_time else ([], [])
    plot.ruler("x", "lower").lim(-job.span_s, 0).pixel(_pixel("text")).ticks(ticks, names)
    # Requests, which have no unit, are whole.
    steps = [0.0, top / 2, top] if height >= 7 and (unit or top % 2 == 0) else [0.0, top]
    plot.ruler("y", "left").lim(0, top).pixel(_pixel("text")).ticks(
        steps, [(f"{value:.3g} {unit}".rstrip() if value else "0").rjust(_SCALE) for value in steps]
    )


def _level(plot: Any, job: Job, height: int, with_time: bool) -> None:
    _axes(plot, job, job.top, "", height, with_time)
    if job.ceiling is not None:
        _curve(plot, [(-job.span_s, job.ceiling), (0.0, job.ceiling)], "rule", "┄")
    _curve(plot, job.active, "info")
    _curve(plot, job.level, "ok")
    for sign, code in dict.fromkeys((sign, code) for _, _, sign, code in job.marks):
        at = [(x, y) for x, y, *which in job.marks if which == [sign, code]]
        marker = plotext.marker(sign, pixel=_pixel(ROLE_CODES[code]))
        plot.draw(plot.signal([x for x, _ in at], [y for _, y in at], marker=marker))


def _ttft(plot: Any, job: Job, height: int) -> None:
    top = max(job.target_s, *(y for _, y in job.ttft)) * 1.1
    _axes(plot, job, round(top, 1) or 0.1, "s", height, with_time=True)
    _curve(plot, [(-job.span_s, job.target_s), (0.0, job.target_s)], "wait")
    _curve(plot, job.ttft, "recover")


def time_ticks(span_s: float) -> tuple[list[float], list[str]]:
    """Return the ticks of the time axis and their labels."""
    step = next(step for step in _TICKS_S if span_s / step <= 5 or step == _TICKS_S[-1])
    ticks = [-float(at) for at in range(0, int(span_s) + 1, step)][::-1]
    return ticks, ["now" if at == 0 else f"-{short_span(at)}" for at in ticks]


def _runs(line: str) -> list[tuple[str, int]]:
    runs: list[tuple[str, int]] = []
    code = 0
    for index, piece in enumerate(_SGR.split(line)):
        if index % 2 == 0:
            if piece:
                runs.append((piece, code))
        elif piece.startswith("38;5;"):
            chosen = int(piece.rsplit(";", 1)[-1]) - _FIRST_CODE
            code = chosen if 0 <= chosen < len(ROLE_CODES) else 0
        elif piece == "0":
            code = 0
    return runs


def main() -> None:
    """Draw jobs until the input ends."""
    for job in messages(msgspec.msgpack.Decoder(Job), nice=10):
        send(draw(job))


if __name__ == "__main__":
    main()
