"""`hivemind tune`: search for settings that would have served recorded traffic better, and save them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from hivemind.cli import client
from hivemind.cli.address import add_folder_flags
from hivemind.cli.journals import find_journals
from hivemind.cli.lab.tune_output import GOALS, as_json, as_text, progress_text
from hivemind.cli.plugin import Command
from hivemind.cli.progress import Progress
from hivemind.console import print_json, printable
from hivemind.errors import UsageError
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.tune.simulations import simulations
from hivemind.lab.tune.space import DEFAULT_KNOBS, RecordedSettings, knobs_named
from hivemind.lab.tune.tuning import Tuner, TuningPlan, TuningResult
from hivemind.prices import prices_at
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.types import Price
from hivemind.text.humanise import listed, plural
from hivemind.text.table import show, width

_MOST_TRIALS, _MOST_SEEDS = 10_000, 1000
_LEAST_SEEDS = 4


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE [FILE ...] [--goal GOAL] [flags]"
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", help="journals: a path, a name or the beginning of it, or latest")
    goal = "what to reduce: the time until all is done, the p95 of waits, or the dollars of all tokens [wall_time]"
    add("--goal", metavar="|".join(GOALS), default="wall_time", help=goal)
    add("--knobs", metavar="NAMES", help=f"knobs to search, separated by commas [{', '.join(DEFAULT_KNOBS)}]")
    add("--trials", metavar="N", type=int, default=60, help="candidates to try at most [60]")
    add("--seeds", metavar="N", type=int, help="draws that validate the result [6 to 12, by the recording's length]")
    add("--json", action="store_true", help="print JSON")
    add("--write", metavar="FILE", nargs="?", const="", help="save the result in hivemind.toml or this file")
    add("--yes", action="store_true", help="with --write: don't ask")
    client.add_place_flags(parser)
    add_folder_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    plan = _plan(namespace)
    target = _target(namespace)
    names = DEFAULT_KNOBS if namespace.knobs is None else knobs_named(namespace.knobs)
    paths = find_journals(namespace, namespace.files)
    price = prices_at()
    with Progress() as progress:
        recordings, began, result = _tuned(plan, names, paths, price, progress)
    notes = _notes(recordings, result)
    if not namespace.json:
        show(as_text(result, recordings, began, notes, width()))
    else:
        print_json(as_json(result, recordings, began, notes))
    if target is not None:
        _write(target, result, ask=not namespace.yes, out=sys.stderr if namespace.json else sys.stdout)
    return 130 if result.interrupted else 0


def _plan(namespace: argparse.Namespace) -> TuningPlan:
    goal = namespace.goal.replace("-", "_")
    if goal not in GOALS:
        raise UsageError(f"--goal {namespace.goal[:40]}: must be {listed(GOALS)}")
    for flag, value, least, most in (
        ("--trials", namespace.trials, 1, _MOST_TRIALS),
        ("--seeds", namespace.seeds, _LEAST_SEEDS, _MOST_SEEDS),
    ):
        if value is not None and not least <= value <= most:
            raise UsageError(f"{flag} {value}: must be a whole number from {least:,} to {most:,}")
    if namespace.yes and namespace.write is None:
        raise UsageError("--yes: goes with --write")
    return TuningPlan(goal, namespace.trials, namespace.seeds)


def _tuned(
    plan: TuningPlan, knobs: Sequence[str], paths: Sequence[Path], price: Price, progress: Progress
) -> tuple[list[Recording], list[RecordedSettings], TuningResult]:
    """Read recordings and tune; return the recordings, their settings, and the result.

    Raises: UsageError: a journal can't be read, or the goal not be reached; HiveMindError.
    """
    recordings: list[Recording] = []
    began: list[RecordedSettings] = []
    before = signal.signal(signal.SIGTERM, _end)
    try:
        for number, path in enumerate(paths, 1):
            of = f" {number} of {len(paths)}" if len(paths) > 1 else ""
            progress.tell(f"reading and fitting{of}")
            read = load(path, price)
            recordings.append(read)
            began.append(RecordedSettings(read.began.config, tuple(read.lanes.values()), read.figures.busiest))
        _check_prices(plan, recordings)
        with simulations(recordings, price) as simulate:
            tell = lambda each: progress.tell(progress_text(each))  # noqa: E731
            return recordings, began, Tuner(simulate, began, knobs, plan, tell).run()
    except KeyboardInterrupt:
        return recordings, began, TuningResult(plan.goal, 0, (), 0.0, None, None, interrupted=True)
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_prices(plan: TuningPlan, recordings: Sequence[Recording]) -> None:
    unpriced = (each.name for each in recordings if each.figures.tokens and each.figures.dollars is None)
    if plan.goal == "dollars" and (name := next(unpriced, None)) is not None:
        raise UsageError(f"--goal dollars: no price is known of what was used in {name}")


def _end(number: int, _: FrameType | None) -> None:
    """Exit in order, so that worker processes end too."""
    sys.exit(128 + number)


def _notes(recordings: Sequence[Recording], result: TuningResult) -> list[str]:
    """Return what limits the recordings and the model."""
    lines = []
    if any(each.began.foreign for each in recordings):
        lines.append("what was imported ran without HiveMind, so it begins with HiveMind's usual settings")
    for each in recordings:
        if result.goal == "dollars" and each.figures.unpriced_tokens:
            lines.append(f"{each.name}: of {plural(each.figures.unpriced_tokens, 'token')} the price isn't known")
        lines += [f"{each.name}: {line}" for line in each.warnings]
    return lines


def _target(namespace: argparse.Namespace) -> Path | None:
    """Return the file to write, if any, checked before the search.

    Raises: UsageError: it isn't a settings file, or the user can't be asked.
    """
    if namespace.write is None:
        return None
    from hivemind.settings import settings_file
    from hivemind.settings.write import draft

    if not namespace.yes and not sys.stdin.isatty():
        raise UsageError("--write: asks at a terminal; --yes writes without asking")
    named = namespace.write
    path = Path(named) if named else settings_file(namespace, environ=os.environ, cwd=Path.cwd())
    try:
        draft(path, {})
    except Rejected as error:
        raise UsageError(str(error)) from None
    return path


def _write(path: Path, result: TuningResult, *, ask: bool, out: TextIO) -> None:
    """Write the result. Raises: UsageError: there is none, or it can't be written."""
    from hivemind.settings.write import draft, write

    if not result.recommended:
        raise UsageError("nothing is written: no settings were found that are certainly better")
    values = {each.name: each.value for each in result.kept}
    try:
        made = draft(path, {name: value for name, value in values.items() if isinstance(value, int | float)})
        if not made.diff:
            print(f"{path} says so already", file=out)
            return
        print("\n".join(["", *made.diff]), file=out)
        if ask:
            print(f"write this to {printable(str(path))}? [y/N] ", end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                print("nothing is written", file=out)
                return
        write(made)
    except Rejected as error:
        raise UsageError(str(error)) from None
    print(f"{path} is written; a proxy reads it when it starts", file=out)


command = Command(_configure, _run)
