"""`hivemind bench`: the seven scenarios, direct and through HiveMind, and the ablation study."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hivemind.errors import UsageError
from hivemind_mock.bench.output import JsonOutput, show_progress
from hivemind_mock.bench.report import ablation_table, records, scenario_table
from hivemind_mock.bench.runs import ABLATION, ABLATIONS, Run, RunResult, execute_run
from hivemind_mock.provider.scenarios import SCENARIOS

_SEEDS, _SEEDS_REAL_TIME = 20, 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hivemind bench`."""
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help=f"which to run, all by default: {', '.join(SCENARIOS)}"
    )
    parser.add_argument("--ablation", action="store_true", help=f"also run {ABLATION} with each primitive turned off")
    parser.add_argument("--seeds", metavar="N", help=f"runs of each [{_SEEDS}, or {_SEEDS_REAL_TIME} with --real-time]")
    parser.add_argument("--real-time", action="store_true", help="over sockets, in real time")
    parser.add_argument("--json", metavar="FILE", help="write every run to a file; - for standard output")
    parser.add_argument("--journal", metavar="FOLDER", help="write a journal of every run through HiveMind there")


def execute(namespace: argparse.Namespace) -> int:
    """Run the scenarios and print the tables.

    Raises: UsageError: an argument can't be used.
    """
    names = _chosen(namespace.scenarios)
    runs = _runs(names, _seeds(namespace.seeds, namespace.real_time), namespace.ablation, _folder(namespace.journal))
    output = JsonOutput(namespace.json)
    results = []
    for number, run in enumerate(runs, 1):
        show_progress(f"{number}/{len(runs)} {run.scenario.name} {run.ablation or run.mode} seed {run.seed}")
        results.append(execute_run(run, real_time=namespace.real_time))
    show_progress("")
    output.write(msgspec.json.format(msgspec.json.encode(records(results)), indent=2) + b"\n")
    if not output.replaces_tables:
        print("\n\n".join(_tables(results)))
    return 0


def _seeds(text: str | None, real_time: bool) -> range:
    if text is None:
        return range(1, (_SEEDS_REAL_TIME if real_time else _SEEDS) + 1)
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise UsageError(f"--seeds: must be a whole number from 1 to 10000, not {text!r}")
    return range(1, int(text) + 1)


def _chosen(names: Sequence[str]) -> list[str]:
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise UsageError(f"{unknown[0]}: no such scenario; there are {', '.join(SCENARIOS)}")
    return list(dict.fromkeys(names or SCENARIOS))


def _tables(results: Sequence[RunResult]) -> list[str]:
    tables = []
    if plain := [result for result in results if result.run.ablation is None]:
        tables.append(scenario_table(plain))
    if ablated := [result for result in results if result.run.ablation is not None]:
        tables.append(f"Ablation on {ABLATION}\n{ablation_table(ablated)}")
    return tables


def _folder(text: str | None) -> Path | None:
    """Create the folder now rather than after the direct runs."""
    if text is None:
        return None
    try:
        Path(text).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        cause = "it isn't a folder" if isinstance(error, FileExistsError) else error.strerror
        raise UsageError(f"--journal: can't write to {text}: {cause}") from None
    return Path(text)


def _runs(names: Sequence[str], seeds: range, ablation: bool, journals: Path | None) -> list[Run]:
    runs = [
        Run(SCENARIOS[name], mode, seed, journals=journals)
        for name in names
        for mode in ("direct", "hivemind")
        for seed in seeds
    ]
    if ablation:
        runs += [Run(SCENARIOS[ABLATION], "hivemind", seed, row, journals) for row in ABLATIONS for seed in seeds]
    return runs
