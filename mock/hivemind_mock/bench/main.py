"""`hivemind bench`: the seven scenarios, direct and through HiveMind, and the ablation study."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from hivemind.console import show_progress as show_progress
from hivemind.errors import UsageError
from hivemind.text.table import TextColumn, lines
from hivemind_mock.bench.runs import ABLATION, ABLATIONS, BenchRun, RunResult, execute_run
from hivemind_mock.provider.config import SCENARIOS

_SEEDS = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hivemind bench`."""
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help=f"which to run, all by default: {', '.join(SCENARIOS)}"
    )
    parser.add_argument("--ablation", action="store_true", help=f"also run {ABLATION} with each primitive turned off")
    parser.add_argument("--seeds", metavar="N", help=f"runs of each [{_SEEDS}]")
    parser.add_argument("--json", metavar="FILE", help="write every run to a file; - for standard output")
    parser.add_argument("--journal", metavar="FOLDER", help="write a journal of every run through HiveMind there")


def execute(namespace: argparse.Namespace) -> int:
    """Run the scenarios and print the tables. Raises: UsageError: an argument can't be used."""
    names = _chosen(namespace.scenarios)
    runs = _runs(names, _seeds(namespace.seeds), namespace.ablation, _folder(namespace.journal))
    output = JsonOutput(namespace.json)
    results = []
    for number, run in enumerate(runs, 1):
        show_progress(f"{number}/{len(runs)} {run.scenario.name} {run.ablation or run.mode} seed {run.seed}")
        results.append(execute_run(run))
    show_progress("")
    output.write(msgspec.json.format(msgspec.json.encode(records(results)), indent=2) + b"\n")
    if not output.replaces_tables:
        print("\n\n".join(tables(results)))
    return 0


def _seeds(text: str | None) -> range:
    if text is None:
        return range(1, _SEEDS + 1)
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise UsageError(f"--seeds: must be a whole number from 1 to 10000, not {text!r}")
    return range(1, int(text) + 1)


def _chosen(names: Sequence[str]) -> list[str]:
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise UsageError(f"{unknown[0]}: no such scenario; there are {', '.join(SCENARIOS)}")
    return list(dict.fromkeys(names or SCENARIOS))


def tables(results: Sequence[RunResult]) -> list[str]:
    """The paper's tables: of the scenarios, direct and through HiveMind, and of what each primitive is worth."""
    found = []
    if plain := [result for result in results if result.run.ablation is None]:
        found.append(_table(("scenario", "mode"), plain, lambda result: (result.run.scenario.name, result.run.mode)))
    if ablated := [result for result in results if result.run.ablation is not None]:
        table = _table(("without",), ablated, lambda result: (result.run.ablation or "",))
        found.append(f"Ablation on {ABLATION}\n{table}")
    return found


def _table(titles: tuple[str, ...], results: Sequence[RunResult], key: Callable[[RunResult], tuple[str, ...]]) -> str:
    """A row for each key, of means over the seeds."""
    groups: dict[tuple[str, ...], list[RunResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    figures = {names: _figures(group) for names, group in groups.items()}
    titles += tuple(next(iter(figures.values())))
    rows = [(*names, *found.values()) for names, found in figures.items()]
    return format_table([titles, *rows], left=len(next(iter(groups))))


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


def _runs(names: Sequence[str], seeds: range, ablation: bool, journals: Path | None) -> list[BenchRun]:
    runs = [
        BenchRun(SCENARIOS[name], mode, seed, journals=journals)
        for name in names
        for mode in ("direct", "hivemind")
        for seed in seeds
    ]
    if ablation:
        runs += [BenchRun(SCENARIOS[ABLATION], "hivemind", seed, row, journals) for row in ABLATIONS for seed in seeds]
    return runs


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


def _figures(group: Sequence[RunResult]) -> dict[str, str]:
    wall_s = fmean(result.wall_s for result in group)
    ratios = [result.wall_s / result.lower_bound_s for result in group if result.lower_bound_s]
    per_minute = fmean(result.alive / result.wall_s * 60 if result.wall_s else 0.0 for result in group)
    return {
        "agents": str(group[0].run.scenario.agents),
        "alive": f"{fmean(result.alive for result in group):.1f}",
        "dead": f"{fmean(result.dead for result in group):.1f}",
        "failed": f"{fmean(result.failure_rate for result in group):.1%}",
        "wasted tokens": f"{fmean(result.wasted_tokens for result in group):,.0f}",
        "wall s": f"{wall_s:.1f}",
        "finished/min": f"{per_minute:.1f}",
        "x bound": f"{fmean(ratios):.3f}" if ratios else "-",
        "worst": f"{max(ratios):.3f}" if ratios else "-",
    }


# --- Output, for this and other benchmarks ----------------------------------------------------------------------------


class JsonOutput:
    """The place that `--json FILE` names: a file, standard output for `-`, or (None) nowhere."""

    def __init__(self, text: str | None) -> None:
        """Create the file now rather than after minutes of work. Raises: UsageError: it can't be written."""
        self.replaces_tables = text == "-"
        """The JSON goes to standard output, in place of the tables."""
        self._path = None if text is None or self.replaces_tables else Path(text)
        if self._path is not None:
            try:
                self._path.touch()
            except OSError as error:
                raise UsageError(f"--json: can't write {text}: {error.strerror}") from None

    def write(self, data: bytes) -> None:
        """Write the data to where `--json` says."""
        if self._path is not None:
            self._path.write_bytes(data)
        elif self.replaces_tables:
            sys.stdout.write(data.decode())


def format_table(rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Return columns as wide as their widest cell; the first `left` are aligned left, the others right."""
    titles, *cells = rows
    columns = [TextColumn(title, right=number >= left) for number, title in enumerate(titles)]
    return "\n".join(lines(columns, cells, None))
