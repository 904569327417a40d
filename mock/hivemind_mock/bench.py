"""`hivemind bench`: the seven scenarios, direct and through HiveMind, and the ablation study."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from hivemind.errors import UsageError
from hivemind.plugin import Command

from .output import JsonTarget, tell_progress
from .report import ablation_table, records, scenario_table
from .runs import Outcome, Plan, run
from .scenarios import ABLATION, ABLATIONS, SCENARIOS

_SEEDS, _SEEDS_REAL_TIME = 20, 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hivemind bench`."""
    names = ", ".join(SCENARIOS)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"which to run, all by default: {names}")
    parser.add_argument("--ablation", action="store_true", help=f"also run {ABLATION} with each primitive turned off")
    parser.add_argument("--seeds", metavar="N", help=f"runs of each [{_SEEDS}, or {_SEEDS_REAL_TIME} with --real-time]")
    parser.add_argument("--real-time", action="store_true", help="over sockets, at the pace of the clock on the wall")
    parser.add_argument("--json", metavar="FILE", help="write every run to a file; - for standard output")


def execute(namespace: argparse.Namespace) -> int:
    """Run what was asked for and print the tables.

    Raises: UsageError: an argument can't be used.
    """
    plans = _plans(namespace.scenarios, _seeds(namespace.seeds, namespace.real_time), namespace.ablation)
    target = JsonTarget(namespace.json)
    outcomes = _carry_out(plans, real_time=namespace.real_time)
    target.write(_as_json(outcomes))
    if target.takes_output:
        return 0
    print(scenario_table([outcome for outcome in outcomes if outcome.plan.ablation is None]))
    if namespace.ablation:
        print(f"\nAblation on {ABLATION}")
        print(ablation_table([outcome for outcome in outcomes if outcome.plan.ablation is not None]))
    return 0


command = Command("bench", "run the benchmark: mock agents, direct and through HiveMind", configure, execute)
"""What the entry point `bench` names."""


def _seeds(text: str | None, real_time: bool) -> range:
    if text is None:
        return range(1, (_SEEDS_REAL_TIME if real_time else _SEEDS) + 1)
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise UsageError(f"--seeds: must be a whole number from 1 to 10000, not {text!r}")
    return range(1, int(text) + 1)


def _plans(names: Sequence[str], seeds: range, ablation: bool) -> list[Plan]:
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise UsageError(f"{unknown[0]}: no such scenario; there are {', '.join(SCENARIOS)}")
    chosen = [SCENARIOS[name] for name in dict.fromkeys(names or SCENARIOS)]
    plans = [Plan(scenario, mode, seed) for scenario in chosen for mode in ("direct", "hivemind") for seed in seeds]
    if ablation:
        plans += [Plan(SCENARIOS[ABLATION], "hivemind", seed, row) for row in ABLATIONS for seed in seeds]
    return plans


def _carry_out(plans: Sequence[Plan], *, real_time: bool) -> list[Outcome]:
    outcomes = []
    for number, plan in enumerate(plans, 1):
        what = f"{plan.scenario.name} {plan.ablation or plan.mode} seed {plan.seed}"
        tell_progress(f"{number}/{len(plans)} {what}")
        outcomes.append(run(plan, real_time=real_time))
    tell_progress("")
    return outcomes


def _as_json(outcomes: Sequence[Outcome]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(records(outcomes)), indent=2) + b"\n"
