"""The paper's two tables, and the same runs as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from hivemind_mock.bench.runs import Outcome
from hivemind_mock.bench.tables import laid_out

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


def records(outcomes: Iterable[Outcome]) -> list[dict[str, object]]:
    """One object a run."""
    return [_record(outcome) for outcome in outcomes]


def _record(outcome: Outcome) -> dict[str, object]:
    plan = outcome.plan
    record: dict[str, object] = {
        "scenario": plan.scenario.name,
        "mode": plan.mode,
        "seed": plan.seed,
        "agents": plan.scenario.agents,
        "alive": outcome.alive,
        "dead": outcome.dead,
        "failure_rate": round(outcome.failure_rate, 4),
        "wasted_tokens": outcome.wasted_tokens,
        "wall_s": round(outcome.wall_s, 3),
        "lower_bound_s": outcome.lower_bound_s,
        "attempts": outcome.attempts,
        "charged": outcome.charged,
    }
    return record if plan.ablation is None else {**record, "ablation": plan.ablation}


def scenario_table(outcomes: Sequence[Outcome]) -> str:
    """Scenarios, direct and through HiveMind (paper, Table of results); means over the seeds."""
    groups = _grouped(outcomes, lambda outcome: (outcome.plan.scenario.name, outcome.plan.mode))
    rows = [(name, mode, *_figures(group)) for (name, mode), group in groups]
    return laid_out([_HEAD, *rows], left=2)


def ablation_table(outcomes: Sequence[Outcome]) -> str:
    """What each primitive is worth (paper, Table of the ablation); means over the seeds."""
    groups = _grouped(outcomes, lambda outcome: (outcome.plan.ablation or "",))
    rows = [(name, *_figures(group)) for (name,), group in groups]
    return laid_out([("without", *_HEAD[2:]), *rows], left=1)


def _grouped(
    outcomes: Sequence[Outcome], key: Callable[[Outcome], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], list[Outcome]]]:
    groups: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(key(outcome), []).append(outcome)
    return list(groups.items())


def _figures(group: Sequence[Outcome]) -> tuple[str, ...]:
    wall_s = fmean(outcome.wall_s for outcome in group)
    ratios = [outcome.wall_s / outcome.lower_bound_s for outcome in group if outcome.lower_bound_s]
    per_minute = fmean(outcome.alive / outcome.wall_s * 60 if outcome.wall_s else 0.0 for outcome in group)
    return (
        str(group[0].plan.scenario.agents),
        f"{fmean(outcome.alive for outcome in group):.1f}",
        f"{fmean(outcome.dead for outcome in group):.1f}",
        f"{fmean(outcome.failure_rate for outcome in group):.1%}",
        f"{fmean(outcome.wasted_tokens for outcome in group):,.0f}",
        f"{wall_s:.1f}",
        f"{per_minute:.1f}",
        f"{fmean(ratios):.3f}" if ratios else "-",
        f"{max(ratios):.3f}" if ratios else "-",
    )
