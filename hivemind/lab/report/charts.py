"""The plots of waits, failed attempts, rate windows and money."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from hivemind.lab.report.agents import AgentStats
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.theme import SERIES, axis, ink, layout, times
from hivemind.lab.report.words import OUTCOMES, label
from hivemind.world.lines import words

POINTS = 400
WINDOWS_SHOWN = 8
SPENDERS_SHOWN = 20
MODELS_SHOWN = 5
_SHORTEST_S = 0.01
"""Where the axis of waits begins."""
_PRIORITIES = {"critical": "f", "high": "d", "normal": "a", "low": "e"}
_OUTCOME_ROLES = {"answered": "good", "failed": "bad", "refused": "retry", "left": "left", "open": "other"}


def waits(run: RecordedRun) -> go.Figure:
    """Plot the distribution of the waits by priority."""
    figure = go.Figure()
    for name, values in run.waits.items():
        points = _shares(values)
        figure.add_trace(
            go.Scatter(
                x=[max(_SHORTEST_S, round(value, 4)) for value, _ in points],
                y=[round(share, 4) for _, share in points],
                mode="lines",
                line={"color": ink(_PRIORITIES[name]), "width": 2.2, "shape": "hv"},
                hovertemplate="%{y:.1%} waited at most %{x:.2~f} s<extra>" + name + "</extra>",
                name=name,
            )
        )
    longest = max((values[-1] for values in run.waits.values() if values), default=1.0)
    figure.update_layout(**layout(320, showlegend=True))
    for share, text in ((0.5, "p50"), (0.95, "p95")):
        figure.add_hline(
            y=share,
            line={"color": ink("dim"), "width": 1, "dash": "dot"},
            annotation={"text": text, "font": {"color": ink("dim"), "size": 11}},
            annotation_position="top left",
        )
    ticks = [tick for tick in (0.01, 0.1, 1, 10, 60, 600, 3600, 36_000) if tick <= max(1.0, longest * 1.3)]
    names = {0.01: "none", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h"}
    figure.update_xaxes(**axis(type="log", tickvals=ticks, ticktext=[names[tick] for tick in ticks]))
    figure.update_yaxes(**axis(range=[0, 1.04], tickformat=".0%"))
    return figure


def _shares(values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the cumulative distribution of sorted values, in at most so many points."""
    count = len(values)
    places = range(count) if count <= POINTS else [round(n * (count - 1) / (POINTS - 1)) for n in range(POINTS)]
    return [(0.0, 0.0), *((values[place], (place + 1) / count) for place in places)]


def faults(run: RecordedRun) -> go.Figure:
    """Plot the failed attempts by kind and by the end of their request."""
    kinds = run.fold.faults.most_frequent()[::-1]
    figure = go.Figure()
    for outcome, (_, name) in OUTCOMES.items():
        values = [kind.outcomes[outcome] for _, kind in kinds]
        if any(values):
            figure.add_trace(
                go.Bar(
                    orientation="h",
                    y=[words(each) for each, _ in kinds],
                    x=values,
                    marker={"color": ink(_OUTCOME_ROLES[outcome]), "line": {"width": 0}},
                    hovertemplate="%{x}<extra>" + name + "</extra>",
                    name=name,
                )
            )
    figure.update_layout(**layout(120 + 34 * max(2, len(kinds)), barmode="stack", showlegend=True))
    figure.update_xaxes(**axis(rangemode="tozero", tickformat=",d", nticks=6))
    figure.update_yaxes(**axis(showgrid=False, type="category"))
    return figure


def windows(run: RecordedRun) -> go.Figure:
    """Plot the used share of each rate window over time."""
    found = [
        (lane, window) for lane in run.fold.lanes.values() for window in lane.windows.values() if window.fullest > 0
    ]
    found.sort(key=lambda each: -each[1].fullest)
    several = len({lane.key for lane, _ in found}) > 1
    figure = go.Figure()
    for place, (lane, window) in enumerate(found[:WINDOWS_SHOWN]):
        name = f"{label(window.family)} {window.kind}" + (f" ({label(lane.upstream, 20)})" if several else "")
        points = window.series.points(run.fold.ended_at)
        figure.add_trace(
            go.Scatter(
                x=[run.stamp_ms(at) for at, _, _ in points],
                y=[round(mean, 4) for _, mean, _ in points],
                mode="lines",
                line={
                    "color": ink(SERIES[place % len(SERIES)]),
                    "width": 1.8,
                    "shape": "hv",
                    "dash": "solid" if place < len(SERIES) else "dash",
                },
                hovertemplate="%{y:.0%}<extra>" + name + "</extra>",
                name=name,
            )
        )
    figure.add_hline(y=1, line={"color": ink("bad"), "width": 1, "dash": "dot"})
    figure.update_layout(**layout(280, hovermode="x unified", showlegend=True))
    figure.update_xaxes(**times(range=[run.stamp_ms(0), run.stamp_ms(max(run.fold.ended_at, 0.001))]))
    figure.update_yaxes(**axis(rangemode="tozero", tickformat=".0%", nticks=6))
    return figure


def money(run: RecordedRun) -> go.Figure:
    """Plot the spending by agent and model, in dollars, or in tokens where no price is known."""
    models = list(run.models)[:MODELS_SHOWN]
    agents = spenders(run)[::-1]
    figure = go.Figure()
    shown = [*models, None] if len(run.models) > len(models) else [*models]
    for place, model in enumerate(shown):
        name = "other models" if model is None else label(model, 32)
        figure.add_trace(
            go.Bar(
                orientation="h",
                y=list(range(len(agents))),
                x=[_spent(run, agent, model, models) for agent in agents],
                marker={"color": ink("other" if model is None else SERIES[place]), "line": {"width": 0}},
                hovertemplate=("$%{x:,.4f}" if run.priced else "%{x:,} tokens") + "<extra>" + name + "</extra>",
                name=name,
            )
        )
    figure.update_layout(**layout(110 + 20 * max(3, len(agents)), barmode="stack", showlegend=True))
    figure.update_xaxes(**axis(rangemode="tozero", tickprefix="$" if run.priced else "", nticks=6))
    figure.update_yaxes(
        **axis(showgrid=False, tickvals=list(range(len(agents))), ticktext=[label(agent.name) for agent in agents])
    )
    return figure


def spenders(run: RecordedRun) -> list[AgentStats]:
    """Return the agents that spent most."""
    agents = [agent for agent in run.fold.agents.values() if agent.spent.tokens]
    return sorted(agents, key=lambda each: (-each.spent.dollars, -each.spent.tokens))[:SPENDERS_SHOWN]


def _spent(run: RecordedRun, agent: AgentStats, model: str | None, named: Sequence[str]) -> float:
    spent = [each for name, each in agent.models.items() if (name not in named if model is None else name == model)]
    return sum(round(each.dollars, 6) if run.priced else each.tokens for each in spent)
