"""The plots of a run's course: its whole, and each agent's part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from hivemind.lab.report import names
from hivemind.lab.report.agents import AgentStats
from hivemind.lab.report.lanes import Lane
from hivemind.lab.report.rows import STATES, Span
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.theme import axis, ink, layout, times
from hivemind.lab.report.words import label
from hivemind.text.humanise import duration
from hivemind.world.lines import words

LANES_SHOWN = 4
ROWS_SHOWN = 60
_UPPER, _LOWER = 190, 110
"""Heights of a lane's two strips, in pixels."""
_ROW = 17
_THICKNESS = 0.66
"""Of an agent's bar, the next row being 1 away."""
_MANY_CUTS = 60

_STATE_ROLES = {"queued": "queued", "retry": "retry", "waiting": "first", "streaming": "streaming"}
_STRETCH_ROLES = {"open": "bad", "half_open": "retry", "parked": "parked"}


def shown_lanes(run: RecordedRun) -> list[Lane]:
    """The lanes that were asked most."""
    lanes = [lane for lane in run.fold.lanes.values() if lane.requests]
    return sorted(lanes, key=lambda lane: -lane.requests)[:LANES_SHOWN]


def course(run: RecordedRun) -> go.Figure:
    """What was in flight and waited over time, with everything that bent it."""
    lanes = shown_lanes(run)
    heights = [_UPPER, _LOWER] * len(lanes)
    figure = make_subplots(
        rows=len(heights),
        cols=1,
        shared_xaxes=True,
        row_heights=heights,
        vertical_spacing=0.09 / len(lanes),
    )
    named: set[str] = set()
    shapes: list[dict[str, Any]] = []
    for number, lane in enumerate(lanes):
        _lane(figure, run, lane, 2 * number + 1, named)
        shapes += _stretches(figure, run, lane, 2 * number + 1, named)
    shapes += _across(figure, run, named)
    figure.update_layout(shapes=shapes)  # all at once: one at a time each costs as much as all before it
    figure.update_layout(**layout(sum(heights) + 100, hovermode="x unified"))
    figure.update_xaxes(**times())
    figure.update_yaxes(**axis(rangemode="tozero", tickformat="d", nticks=5))
    for number, lane in enumerate(lanes):
        of = f"<b>{label(lane.key, 20)}</b><br>" if len(lanes) > 1 else ""
        figure.update_yaxes(title_text=f"{of}in flight", row=2 * number + 1, col=1)
        figure.update_yaxes(title_text="waiting", row=2 * number + 2, col=1)
    figure.update_xaxes(range=[run.stamp_ms(0), run.stamp_ms(max(run.fold.ended_at, 0.001))])
    return figure


def _lane(figure: go.Figure, run: RecordedRun, lane: Lane, row: int, named: set[str]) -> None:
    until = run.fold.ended_at
    for series, name, role, place in (
        (lane.flying, "in flight", "flight", row),
        (lane.waiting, "waiting", "queued", row + 1),
    ):
        _area(figure, run, series.points(until), (name, role), place, named)
    level = lane.level.points(until)
    if level:
        figure.add_trace(
            go.Scatter(
                x=[run.stamp_ms(at) for at, _, _ in level],
                y=[round(mean, 2) for _, mean, _ in level],
                mode="lines",
                line={"color": ink("level"), "width": 1.6, "shape": "hv"},
                hovertemplate="%{y:.1f}<extra>level</extra>",
                **_named("level (AIMD)", named),
            ),
            row=row,
            col=1,
        )
    if lane.cuts.kept:
        _cuts(figure, run, lane, row, named)


def _stretches(figure: go.Figure, run: RecordedRun, lane: Lane, row: int, named: set[str]) -> list[dict[str, Any]]:
    lower, upper = (figure.layout[f"yaxis{place if place > 1 else ''}"].domain for place in (row + 1, row))
    shapes = []
    for stretch in lane.spans.kept:
        role = _STRETCH_ROLES.get(stretch.what, "lost")
        shapes.append(_shade(run, (stretch.begins, stretch.ends), role, (lower[0], upper[1])))
        _key(figure, names.stretch(stretch.what), role, named, row)
    return shapes


def _area(
    figure: go.Figure,
    run: RecordedRun,
    points: list[tuple[float, float, float]],
    look: tuple[str, str],
    row: int,
    named: set[str],
) -> None:
    name, role = look
    figure.add_trace(
        go.Scatter(
            x=[run.stamp_ms(at) for at, _, _ in points],
            y=[round(mean, 2) for _, mean, _ in points],
            customdata=[round(top) for _, _, top in points],
            mode="lines",
            line={"color": ink(role), "width": 1, "shape": "hv"},
            fill="tozeroy",
            hovertemplate="%{y:.1f}, at most %{customdata}<extra>" + name + "</extra>",
            **_named(name, named),
        ),
        row=row,
        col=1,
    )


def _cuts(figure: go.Figure, run: RecordedRun, lane: Lane, row: int, named: set[str]) -> None:
    cuts = lane.cuts.kept
    size = 9 if len(cuts) <= _MANY_CUTS else 5
    figure.add_trace(
        go.Scatter(
            x=[run.stamp_ms(cut.at) for cut in cuts],
            y=[round(cut.level, 2) for cut in cuts],
            customdata=[label(words(cut.cause), 40) for cut in cuts],
            mode="markers",
            marker={"symbol": "triangle-down", "size": size, "color": ink("bad"), "line": {"width": 0}},
            hovertemplate="to %{y:.1f}: %{customdata}<extra>cut</extra>",
            **_named("cut of the level", named),
        ),
        row=row,
        col=1,
    )


def _across(figure: go.Figure, run: RecordedRun, named: set[str]) -> list[dict[str, Any]]:
    """What is about the whole run."""
    shapes = []
    for begins, ends, _ in run.fold.gaps.kept:
        shapes.append(_shade(run, (begins, ends), "lost", (0, 1)))
        _key(figure, "events missing", "lost", named, 1)
    said = run.fold.words.kept
    if said:
        top = max((lane.busiest for lane in shown_lanes(run)), default=1)
        figure.add_trace(
            go.Scatter(
                x=[run.stamp_ms(word.at) for word in said],
                y=[top * 1.12] * len(said),
                customdata=[label(f"{word.about}: {word.text}, by {word.who}", 90) for word in said],
                mode="markers",
                marker={"symbol": "diamond", "size": 9, "color": ink("dim")},
                hovertemplate="%{customdata}<extra>operator</extra>",
                **_named("operator", named),
            ),
            row=1,
            col=1,
        )
    line = {"color": ink("dim"), "width": 1, "dash": "dot"}
    for word in said:
        at = run.stamp_ms(word.at)
        shapes.append({"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line})
    return shapes


def _shade(run: RecordedRun, span: tuple[float, float], role: str, heights: tuple[float, float]) -> dict[str, Any]:
    """A time, in all strips between two heights, of which 1 is the whole plot's."""
    least = run.fold.ended_at / 400
    return {
        "type": "rect",
        "x0": run.stamp_ms(span[0]),
        "x1": run.stamp_ms(max(span[1], span[0] + least)),
        "y0": heights[0],
        "y1": heights[1],
        "yref": "paper",
        "fillcolor": ink(role),
        "opacity": 0.22,
        "line": {"width": 0},
        "layer": "below",
    }


def _key(figure: go.Figure, name: str, role: str, named: set[str], row: int) -> None:
    """Something without a trace of its own in the legend."""
    if name not in named:
        figure.add_trace(
            go.Scatter(
                x=[None],
                y=[None],
                mode="markers",
                marker={"symbol": "square", "size": 12, "color": ink(role), "opacity": 0.4},
                **_named(name, named),
            ),
            row=row,
            col=1,
        )


def _named(name: str, named: set[str]) -> dict[str, Any]:
    """One entry in the legend for all traces of a name, which are shown and hidden together."""
    first = name not in named
    named.add(name)
    return {"name": name, "legendgroup": name, "showlegend": first}


def gantt(run: RecordedRun, agents: list[AgentStats]) -> go.Figure:
    """Each agent a row: what it did when, the faults it met, and how it ended."""
    figure = go.Figure()
    rows = [(place, agent) for place, agent in enumerate(agents) if agent.row is not None]
    for place in reversed(range(len(STATES))):
        bars = [bar for row, agent in rows if agent.row is not None for bar in _bars(row, agent.row.spans, place)]
        if bars:
            figure.add_trace(_state(run, STATES[place], bars))
    _faults_met(figure, run, agents)
    _ends(figure, run, agents)
    figure.update_layout(**layout(90 + _ROW * max(4, len(agents)), barmode="overlay"))
    figure.update_xaxes(**times(range=[run.stamp_ms(0), run.stamp_ms(max(run.fold.ended_at * 1.015, 0.001))]))
    figure.update_yaxes(
        **axis(
            showgrid=False,
            tickvals=list(range(len(agents))),
            ticktext=[label(agent.name) for agent in agents],
            range=[len(agents) - 0.4, -0.6],
            fixedrange=True,
        )
    )
    return figure


@dataclass(frozen=True, slots=True)
class _Bar:
    row: int
    span: Span
    offset: float
    """Of its upper edge from the middle of the row, of which the next one is 1 away."""
    thickness: float
    seconds: float


def _bars(row: int, spans: list[Span], state: int) -> Iterator[_Bar]:
    """Where the agent was in that state. A span that stands for several shows them one above the other, each as thick
    as its share of the time."""
    for span in spans:
        if span.seconds[state]:
            shares = [each / (span.ends - span.begins) for each in span.seconds]
            offset = _THICKNESS * (sum(shares[:state]) - 0.5)
            yield _Bar(row, span, offset, _THICKNESS * shares[state], span.seconds[state])


def _state(run: RecordedRun, state: str, bars: list[_Bar]) -> go.Bar:
    return go.Bar(
        orientation="h",
        y=[bar.row for bar in bars],
        base=[run.stamp_ms(bar.span.begins) for bar in bars],
        x=[max(1, round((bar.span.ends - bar.span.begins) * 1000)) for bar in bars],
        offset=[round(bar.offset, 3) for bar in bars],
        width=[round(bar.thickness, 3) for bar in bars],
        customdata=[
            duration(bar.seconds) + (f" of {duration(bar.span.ends - bar.span.begins)}" if bar.span.mixed else "")
            for bar in bars
        ],
        marker={"color": ink(_STATE_ROLES[state]), "line": {"width": 0}},
        hovertemplate="%{customdata}<extra>" + names.STATES[state] + "</extra>",
        name=names.STATES[state],
    )


def _faults_met(figure: go.Figure, run: RecordedRun, agents: list[AgentStats]) -> None:
    marks = [
        (place, at, kind)
        for place, agent in enumerate(agents)
        if agent.row is not None
        for at, kind, passed_on in agent.row.marks
        if not passed_on
    ]
    if marks:
        figure.add_trace(
            _marks(
                run,
                [(place, at, f"{words(kind)}, tried again") for place, at, kind in marks],
                ("fault, tried again", "retry", "line-ns", 9),
            )
        )


def _ends(figure: go.Figure, run: RecordedRun, agents: list[AgentStats]) -> None:
    looks = {
        "answered": ("last request answered", "good", "circle", 10),
        "failed": ("ended in an error", "bad", "x", 10),
        "refused": ("ended in a refusal", "bad", "square", 10),
        "left": ("client left", "left", "circle-open", 7),
        "": ("not over", "dim", "triangle-right-open", 8),
    }
    for end, look in looks.items():
        marks = [(place, agent.ended, look[0]) for place, agent in enumerate(agents) if agent.last_end == end]
        if marks:
            figure.add_trace(_marks(run, marks, look))
    errors = [
        (place, at, f"{words(kind)}, passed on")
        for place, agent in enumerate(agents)
        if agent.row is not None
        for at, kind, passed_on in agent.row.marks
        if passed_on and not (agent.last_end == "failed" and at == agent.ended)
    ]
    if errors:
        figure.add_trace(_marks(run, errors, ("error passed on to the agent", "bad", "x-thin", 8)))


def _marks(run: RecordedRun, marks: list[tuple[int, float, str]], look: tuple[str, str, str, int]) -> go.Scatter:
    name, role, symbol, size = look
    thin = symbol in ("line-ns", "x-thin")
    return go.Scatter(
        x=[run.stamp_ms(at) for _, at, _ in marks],
        y=[place for place, _, _ in marks],
        customdata=[text for _, _, text in marks],
        mode="markers",
        marker={
            "symbol": symbol,
            "size": size,
            "color": ink(role),
            "line": {"width": 2 if thin else 1.2, "color": ink(role if thin or "open" in symbol else "card")},
        },
        hovertemplate="%{customdata}<extra></extra>",
        name=name,
    )
