"""The plots of waits, failed attempts, rate windows and money."""

from __future__ import annotations

from collections.abc import Sequence, Set

import plotly.graph_objects as go

from hivemind.lab.report.agents import AgentStats
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.theme import OUTCOMES, SERIES, axis, hover, ink, label, layout, times
from hivemind.world.lines import words

POINTS = 400
WINDOWS_SHOWN = 8
SPENDERS_SHOWN = 20
MODELS_SHOWN = 5
_TICKS = {0.01: "none", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h"}
"""Ticks of the axis of waits, which begins with the first one."""
_PRIORITIES = {"critical": "f", "high": "d", "normal": "a", "low": "e"}
_OUTCOME_ROLES = {"answered": "good", "failed": "bad", "refused": "retry", "left": "left", "open": "other"}


def waits(run: RecordedRun) -> go.Figure:
    """Plot the distribution of the waits by priority."""
    longest = max((values[-1] for values in run.waits.values() if values), default=1.0)
    ticks = [tick for tick in _TICKS if tick <= max(1.0, longest * 1.3)]
    xaxis = axis(type="log", tickvals=ticks, ticktext=[_TICKS[tick] for tick in ticks])
    figure = go.Figure(layout=layout(320, xaxis, axis(range=[0, 1.04], tickformat=".0%"), showlegend=True))
    for name, values in run.waits.items():
        points = _shares(values)
        figure.add_scatter(
            x=[max(ticks[0], round(value, 4)) for value, _ in points],
            y=[round(share, 4) for _, share in points],
            mode="lines",
            line={"color": ink(_PRIORITIES[name]), "width": 2.2, "shape": "hv"},
            hovertemplate=hover("%{y:.1%} waited at most %{x:.2~f} s", name),
            name=name,
        )
    for share, text in ((0.5, "p50"), (0.95, "p95")):
        figure.add_hline(
            y=share,
            line={"color": ink("dim"), "width": 1, "dash": "dot"},
            annotation={"text": text, "font": {"color": ink("dim"), "size": 11}},
            annotation_position="top left",
        )
    return figure


def _shares(values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the cumulative distribution of sorted values, in at most so many points."""
    count = len(values)
    places = range(count) if count <= POINTS else [round(n * (count - 1) / (POINTS - 1)) for n in range(POINTS)]
    return [(0.0, 0.0), *((values[place], (place + 1) / count) for place in places)]


def faults(run: RecordedRun) -> go.Figure:
    """Plot the failed attempts by kind and by the end of their request."""
    kinds = run.fold.faults.most_frequent()[::-1]
    figure = _stacked_bars(34 * max(2, len(kinds)), axis(rangemode="tozero", tickformat=",d", nticks=6))
    figure.update_yaxes(type="category")
    for outcome, (_, name) in OUTCOMES.items():
        values = [kind.outcomes[outcome] for _, kind in kinds]
        if any(values):
            _add_bars(figure, [words(each) for each, _ in kinds], values, _OUTCOME_ROLES[outcome], name, "%{x}")
    return figure


def windows(run: RecordedRun) -> go.Figure:
    """Plot the used share of each rate window over time."""
    found = [(lane, window) for lane, window in run.windows() if window.fullest > 0]
    found.sort(key=lambda each: -each[1].fullest)
    several = len({lane.key for lane, _ in found}) > 1
    yaxis = axis(rangemode="tozero", tickformat=".0%", nticks=6)
    figure = go.Figure(layout=layout(280, times(run), yaxis, hovermode="x unified", showlegend=True))
    for place, (lane, window) in enumerate(found[:WINDOWS_SHOWN]):
        of = f" ({label(lane.upstream, 20)})" if several else ""
        name = f"{label(window.state.family)} {window.state.kind.value}{of}"
        points = window.series.points(run.fold.ended_at)
        dash = "solid" if place < len(SERIES) else "dash"
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


def money(run: RecordedRun) -> go.Figure:
    """Plot the spending by agent and model, in dollars, or in tokens where no price is known."""
    agents = spenders(run)[::-1]
    places = list(range(len(agents)))
    xaxis = axis(rangemode="tozero", tickprefix="$" if run.priced else "", nticks=6)
    figure = _stacked_bars(20 * max(3, len(agents)), xaxis)
    figure.update_yaxes(tickvals=places, ticktext=[label(agent.name) for agent in agents])
    text = "$%{x:,.4f}" if run.priced else "%{x:,} tokens"
    shown = list(run.models)[:MODELS_SHOWN]
    for model, role in zip(shown, SERIES, strict=False):
        _add_bars(figure, places, [_spent(run, agent, {model}) for agent in agents], role, label(model, 32), text)
    if len(run.models) > len(shown):
        others = [_spent(run, agent, agent.models.keys() - shown) for agent in agents]
        _add_bars(figure, places, others, "other", "other models", text)
    return figure


def spenders(run: RecordedRun) -> list[AgentStats]:
    """Return the agents that spent most."""
    agents = [agent for agent in run.fold.agents.values() if agent.spent.tokens]
    return sorted(agents, key=lambda each: (-each.spent.dollars, -each.spent.tokens))[:SPENDERS_SHOWN]


def _spent(run: RecordedRun, agent: AgentStats, models: Set[str]) -> float:
    spent = [each for model, each in agent.models.items() if model in models]
    return sum(round(each.dollars, 6) if run.priced else each.tokens for each in spent)


def _stacked_bars(height: int, xaxis: dict[str, object]) -> go.Figure:
    """Return a figure for horizontal bars, `height` pixels high without legend and axis."""
    return go.Figure(layout=layout(120 + height, xaxis, axis(showgrid=False), barmode="stack", showlegend=True))


def _add_bars(
    figure: go.Figure, rows: Sequence[object], values: Sequence[float], role: str, name: str, text: str
) -> None:
    marker = {"color": ink(role), "line": {"width": 0}}
    figure.add_bar(orientation="h", y=rows, x=values, marker=marker, hovertemplate=hover(text, name), name=name)
