"""`hivemind bench`: the seven scenarios, direct and through HiveMind, fairness, and the ablation study."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks import fairness
from benchmarks import prediction as foretold
from hivemind.cli.plugin import Command
from hivemind.errors import UsageError
from hivemind_mock.bench import targets as promises
from hivemind_mock.bench.output import JsonTarget, tell_progress
from hivemind_mock.bench.report import ablation_table, records, scenario_table
from hivemind_mock.bench.runs import Outcome, Plan, run
from hivemind_mock.bench.scenarios import ABLATION, ABLATIONS, SCENARIOS

_SEEDS, _SEEDS_REAL_TIME = 20, 1
_KNOWN = (*SCENARIOS, fairness.NAME, foretold.NAME)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hivemind bench`."""
    names = ", ".join(_KNOWN)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"which to run, all by default: {names}")
    parser.add_argument("--ablation", action="store_true", help=f"also run {ABLATION} with each primitive turned off")
    parser.add_argument("--seeds", metavar="N", help=f"runs of each [{_SEEDS}, or {_SEEDS_REAL_TIME} with --real-time]")
    parser.add_argument("--real-time", action="store_true", help="over sockets, at the pace of the clock on the wall")
    parser.add_argument("--json", metavar="FILE", help="write every run to a file; - for standard output")
    parser.add_argument("--journal", metavar="FOLDER", help="leave a journal of every run through HiveMind there")


def execute(namespace: argparse.Namespace) -> int:
    """Run what was asked for and print the tables.

    Raises: UsageError: an argument can't be used.
    """
    names = _chosen(namespace.scenarios)
    plans = _plans(names, _seeds(namespace.seeds, namespace.real_time), namespace.ablation, _folder(namespace.journal))
    target = JsonTarget(namespace.json)
    outcomes = _carry_out(plans, real_time=namespace.real_time)
    promised = _promised(names, real_time=namespace.real_time)
    told = [record for name, figures in promised.items() for record in promises.records(name, figures)]
    target.write(_as_json([*records(outcomes), *told]))
    if not target.takes_output:
        print("\n\n".join(_tables(outcomes, promised)))
    return 0


command = Command("bench", "run the benchmark: mock agents, direct and through HiveMind", configure, execute)
"""What the entry point `bench` names."""


def _seeds(text: str | None, real_time: bool) -> range:
    if text is None:
        return range(1, (_SEEDS_REAL_TIME if real_time else _SEEDS) + 1)
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise UsageError(f"--seeds: must be a whole number from 1 to 10000, not {text!r}")
    return range(1, int(text) + 1)


def _chosen(names: Sequence[str]) -> list[str]:
    """What to run."""
    unknown = [name for name in names if name not in _KNOWN]
    if unknown:
        raise UsageError(f"{unknown[0]}: no such scenario; there are {', '.join(_KNOWN)}")
    return list(dict.fromkeys(names or _KNOWN))


def _tables(outcomes: Sequence[Outcome], promised: Mapping[str, Sequence[promises.Figure]]) -> list[str]:
    tables = []
    if plain := [outcome for outcome in outcomes if outcome.plan.ablation is None]:
        tables.append(scenario_table(plain))
    if ablated := [outcome for outcome in outcomes if outcome.plan.ablation is not None]:
        tables.append(f"Ablation on {ABLATION}\n{ablation_table(ablated)}")
    return [*tables, *(promises.table(name, figures) for name, figures in promised.items())]


def _promised(names: Sequence[str], *, real_time: bool) -> dict[str, list[promises.Figure]]:
    """What was measured of what is promised, by what it is about; fairness always in virtual time."""
    found = {}
    if fairness.NAME in names:
        tell_progress(fairness.NAME)
        found[fairness.NAME] = fairness.figures()
    if foretold.NAME in names:
        found[foretold.NAME] = foretold.figures(real_time=real_time)
    tell_progress("")
    return found


def _folder(text: str | None) -> Path | None:
    """Made now rather than after the direct runs."""
    if text is None:
        return None
    try:
        Path(text).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        cause = "it isn't a folder" if isinstance(error, FileExistsError) else error.strerror
        raise UsageError(f"--journal: can't write to {text}: {cause}") from None
    return Path(text)


def _plans(names: Sequence[str], seeds: range, ablation: bool, journals: Path | None) -> list[Plan]:
    chosen = [SCENARIOS[name] for name in names if name in SCENARIOS]
    plans = [
        Plan(scenario, mode, seed, journals=journals)
        for scenario in chosen
        for mode in ("direct", "hivemind")
        for seed in seeds
    ]
    if ablation:
        plans += [Plan(SCENARIOS[ABLATION], "hivemind", seed, row, journals) for row in ABLATIONS for seed in seeds]
    return plans


def _carry_out(plans: Sequence[Plan], *, real_time: bool) -> list[Outcome]:
    outcomes = []
    for number, plan in enumerate(plans, 1):
        what = f"{plan.scenario.name} {plan.ablation or plan.mode} seed {plan.seed}"
        tell_progress(f"{number}/{len(plans)} {what}")
        outcomes.append(run(plan, real_time=real_time))
    tell_progress("")
    return outcomes


def _as_json(runs: Sequence[dict[str, object]]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(runs), indent=2) + b"\n"
