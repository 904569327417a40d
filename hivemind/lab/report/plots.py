"""The plots of a report: the run over time, and rate windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from hivemind.lab.report.lanes import LaneSummary, Series
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.theme import SERIES, axis, hover, ink, label, lane_state, layout, times
from hivemind.world.lines import words

LANES_SHOWN = 4
_UPPER, _LOWER = 190, 110
"""Heights of a lane's two strips in pixels."""
_MANY_CUTS = 60
_LANE_ROLES = {"open": "bad", "half_open": "retry", "paused": "paused"}
WINDOWS_SHOWN = 8


def course(run: RecordedRun) -> go.Figure:
    """Plot requests in flight and queued over time, with everything that limited them."""
    lanes = [lane for lane in run.fold.lanes.values() if lane.requests]
    return _Course(run, sorted(lanes, key=lambda lane: -lane.requests)[:LANES_SHOWN]).figure


class _Course:
    """Two strips for each lane: in flight with the level, and queued."""

    def __init__(self, run: RecordedRun, lanes: Sequence[LaneSummary]) -> None:
        self._run = run
        self._named: set[str] = set()
        self._shapes: list[dict[str, Any]] = []
        heights = [_UPPER, _LOWER] * len(lanes)
        spacing = 0.09 / len(lanes)
        self.figure = make_subplots(len(heights), 1, shared_xaxes=True, row_heights=heights, vertical_spacing=spacing)
        for number, lane in enumerate(lanes):
            self._add_lane(lane, 2 * number + 1)
        self._add_gaps_and_commands(max((lane.max_in_flight for lane in lanes), default=1))
        xaxis, yaxis = times(run), axis(rangemode="tozero", tickformat=",~g", nticks=5)
        # All shapes at once: adding one costs as much as all before it.
        look = layout(sum(heights) + 100, {}, {}, hovermode="x unified", shapes=self._shapes)
        self.figure.update_layout(**look).update_xaxes(**xaxis).update_yaxes(**yaxis)
        for number, lane in enumerate(lanes):
            of = f"<b>{label(lane.key, 20)}</b><br>" if len(lanes) > 1 else ""
            self.figure.update_yaxes(title_text=f"{of}in flight", row=2 * number + 1, col=1)
            self.figure.update_yaxes(title_text="queued", row=2 * number + 2, col=1)

    def _add_lane(self, lane: LaneSummary, row: int) -> None:
        self._add_area(lane.in_flight, "in flight", "flight", row)
        self._add_area(lane.queued, "queued", "queued", row + 1)
        if level := lane.level.points(self._run.fold.ended_at):
            self._add(
                "level (AIMD)",
                row,
                [at for at, _, _ in level],
                [round(mean, 2) for _, mean, _ in level],
                mode="lines",
                line={"color": ink("level"), "width": 1.6, "shape": "hv"},
                hovertemplate=hover("%{y:.1f}", "level"),
            )
        if cuts := lane.cuts.kept:
            size = 9 if len(cuts) <= _MANY_CUTS else 5
            self._add(
                "cut of the level",
                row,
                [cut.at for cut in cuts],
                [round(cut.level, 2) for cut in cuts],
                customdata=[label(words(cut.cause), 40) for cut in cuts],
                mode="markers",
                marker={"symbol": "triangle-down", "size": size, "color": ink("bad"), "line": {"width": 0}},
                hovertemplate=hover("to %{y:.1f}: %{customdata}", "cut"),
            )
        lower, upper = (self.figure.layout[f"yaxis{place if place > 1 else ''}"].domain for place in (row + 1, row))
        for span in lane.spans.kept:
            role = _LANE_ROLES.get(span.state, "lost")
            self._shade(label(lane_state(span.state), 60), role, span.begins, span.ends, (lower[0], upper[1]), row)

    def _add_area(self, series: Series, name: str, role: str, row: int) -> None:
        points = series.points(self._run.fold.ended_at)
        self._add(
            name,
            row,
            [at for at, _, _ in points],
            [round(mean, 2) for _, mean, _ in points],
            customdata=[round(top) for _, _, top in points],
            mode="lines",
            line={"color": ink(role), "width": 1, "shape": "hv"},
            fill="tozeroy",
            hovertemplate=hover("%{y:.1f}, at most %{customdata}", name),
        )

    def _add_gaps_and_commands(self, top: int) -> None:
        for begins, ends, _ in self._run.fold.gaps.kept:
            self._shade("events missing", "lost", begins, ends, (0, 1), 1)
        commands = self._run.fold.commands.kept
        if commands:
            self._add(
                "operator",
                1,
                [each.at for each in commands],
                [top * 1.12] * len(commands),
                customdata=[label(f"{each.about}: {each.text}, by {each.who}", 90) for each in commands],
                mode="markers",
                marker={"symbol": "diamond", "size": 9, "color": ink("dim")},
                hovertemplate=hover("%{customdata}", "operator"),
            )
        line = {"color": ink("dim"), "width": 1, "dash": "dot"}
        for each in commands:
            at = self._run.stamp_ms(each.at)
            self._shapes.append({"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line})

    def _shade(self, name: str, role: str, begins: float, ends: float, heights: tuple[float, float], row: int) -> None:
        """Shade a time between two heights of the plot, 0 to 1, and name it in the legend."""
        x0, x1 = map(self._run.stamp_ms, (begins, max(ends, begins + self._run.fold.ended_at / 400)))
        area = {"type": "rect", "x0": x0, "x1": x1, "y0": heights[0], "y1": heights[1], "yref": "paper"}
        look = {"fillcolor": ink(role), "opacity": 0.22, "line": {"width": 0}, "layer": "below"}
        self._shapes.append({**area, **look})
        if name not in self._named:
            marker = {"symbol": "square", "size": 12, "color": ink(role), "opacity": 0.4}
            self._add(name, row, [], [], mode="markers", marker=marker)

    def _add(self, name: str, row: int, at: Iterable[float], values: Sequence[float], **look: Any) -> None:
        """Add a trace; all traces of a name have one entry in the legend, which shows and hides them together."""
        first = name not in self._named
        self._named.add(name)
        moments = [self._run.stamp_ms(each) for each in at]
        # A trace without points has an entry in the legend only if it has one point that is None.
        x, y = (moments, values) if moments else ([None], [None])
        self.figure.add_scatter(x=x, y=y, name=name, legendgroup=name, showlegend=first, row=row, col=1, **look)


def windows(run: RecordedRun) -> go.Figure:
    """Plot the used share of each rate window over time, dotted where it is our own sum."""
    found = [(lane, window) for lane, window in run.windows() if window.fullest > 0]
    found.sort(key=lambda each: -each[1].fullest)
    several = len({lane.key for lane, _ in found}) > 1
    yaxis = axis(rangemode="tozero", tickformat=".0%", nticks=6)
    figure = go.Figure(layout=layout(280, times(run), yaxis, hovermode="x unified", showlegend=True))
    for place, (lane, window) in enumerate(found[:WINDOWS_SHOWN]):
        of = f" ({label(lane.upstream, 20)})" if several else ""
        own = "" if window.told else ", our own sum"
        name = f"{label(window.family)} {window.kind.value}{of}{own}"
        points = window.points(run.fold.ended_at)
        dash = "dot" if own else "solid" if place < len(SERIES) else "dash"
        figure.add_scatter(
            x=[run.stamp_ms(at) for at, _, _ in points],
            y=[round(mean, 4) for _, mean, _ in points],
            mode="lines",
            line={"color": ink(SERIES[place % len(SERIES)]), "width": 1.8, "shape": "hv", "dash": dash},
            hovertemplate=hover("%{y:.0%}", name),
            name=name,
        )
    figure.add_hline(y=1, line={"color": ink("bad"), "width": 1, "dash": "dot"})
    return figure
