"""The paper's two tables, and the same runs as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from hivemind_mock.bench.output import format_table
from hivemind_mock.bench.runs import RunResult

_HEAD = (
    "scenario",
    "mode",
    "agents",
    "alive",
    "dead",
    "failed",
    "wasted tokens",
    "wall s",
    "finished/min",
    "x bound",
    "worst",
)


def records(results: Iterable[RunResult]) -> list[dict[str, object]]:
    """Return an object for each run, for its JSON."""
    return [
        {
            "scenario": result.run.scenario.name,
            "mode": result.run.mode,
            "seed": result.run.seed,
            "agents": result.run.scenario.agents,
            "alive": result.alive,
            "dead": result.dead,
            "failure_rate": round(result.failure_rate, 4),
            "wasted_tokens": result.wasted_tokens,
            "wall_s": round(result.wall_s, 3),
            "lower_bound_s": result.lower_bound_s,
            "attempts": result.attempts,
            "charged": result.charged,
            **({} if result.run.ablation is None else {"ablation": result.run.ablation}),
        }
        for result in results
    ]


def scenario_table(results: Sequence[RunResult]) -> str:
    """Return the table of scenarios, direct and through HiveMind (paper, Table of results); means over the seeds."""
    groups = _grouped(results, lambda result: (result.run.scenario.name, result.run.mode))
    rows = [(name, mode, *_figures(group)) for (name, mode), group in groups]
    return format_table([_HEAD, *rows], left=2)


def ablation_table(results: Sequence[RunResult]) -> str:
    """Return the table of what each primitive is worth (paper, Table of the ablation); means over the seeds."""
    groups = _grouped(results, lambda result: (result.run.ablation or "",))
    rows = [(name, *_figures(group)) for (name,), group in groups]
    return format_table([("without", *_HEAD[2:]), *rows], left=1)


def _grouped(
    results: Sequence[RunResult], key: Callable[[RunResult], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], list[RunResult]]]:
    groups: dict[tuple[str, ...], list[RunResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return list(groups.items())


def _figures(group: Sequence[RunResult]) -> tuple[str, ...]:
    wall_s = fmean(result.wall_s for result in group)
    ratios = [result.wall_s / result.lower_bound_s for result in group if result.lower_bound_s]
    per_minute = fmean(result.alive / result.wall_s * 60 if result.wall_s else 0.0 for result in group)
    return (
        str(group[0].run.scenario.agents),
        f"{fmean(result.alive for result in group):.1f}",
        f"{fmean(result.dead for result in group):.1f}",
        f"{fmean(result.failure_rate for result in group):.1%}",
        f"{fmean(result.wasted_tokens for result in group):,.0f}",
        f"{wall_s:.1f}",
        f"{per_minute:.1f}",
        f"{fmean(ratios):.3f}" if ratios else "-",
        f"{max(ratios):.3f}" if ratios else "-",
    )
