"""`hivemind tune`: search for settings that would have served recorded traffic better, and write them down."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO, get_args

from hivemind.cli.lab import journals as recorded
from hivemind.cli.lab import tune_output as tuned
from hivemind.cli.plugin import Command
from hivemind.console import json_text, printable
from hivemind.errors import UsageError
from hivemind.lab.comparison import extrapolation_notes
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.tune.overrides import Change
from hivemind.lab.tune.space import DEFAULT_KNOBS, Dimension, RecordedSettings, knobs_named, space
from hivemind.lab.tune.tuning import Goal, Tuner, TuningPlan, TuningProgress, TuningResult
from hivemind.lab.tune.workers import Workers
from hivemind.scheduler.commands import Rejected
from hivemind.text.table import show, width

_MOST_TRIALS, _MOST_SEEDS, _MOST_SEED = 10_000, 1000, 2**32 - 1
_GOALS = get_args(Goal)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE [FILE ...] [--goal GOAL] [flags]"
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="journals: a path, a name or the beginning of it, or latest"
    )
    parser.add_argument(
        "--goal",
        metavar="|".join(_GOALS),
        default="wall_time",
        help="what is to become less: the time until all is done, the 95th percentile of the requests' waits, or the"
        " dollars of all tokens [wall_time]",
    )
    parser.add_argument(
        "--knobs", metavar="NAMES", help=f"which to turn, a comma between them [{', '.join(DEFAULT_KNOBS)}]"
    )
    parser.add_argument("--trials", metavar="N", type=int, default=60, help="candidates to try [60]")
    parser.add_argument("--seeds", metavar="N", type=int, default=20, help="runs by which the result is checked [20]")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="another one searches elsewhere [0]")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        help="search and choose for about so long; checking the result comes on top",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--write", metavar="FILE", nargs="?", const="", help="write the result down, in hivemind.toml or this file"
    )
    parser.add_argument("--yes", action="store_true", help="with --write: don't ask")
    recorded.add_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    plan = _plan(namespace)
    target = _target(namespace)
    names = DEFAULT_KNOBS if namespace.knobs is None else knobs_named(namespace.knobs)
    paths = recorded.found(namespace, namespace.files)
    with recorded.underway("reading"):
        price = recorded.price()
        recordings = [load(path, price) for path in paths]
    _check(recordings, plan.goal)
    began = [
        RecordedSettings(each.began.config, tuple(each.lanes.values()), each.figures.busiest) for each in recordings
    ]
    found = _search(paths, began, space(names, began), plan, namespace.timeout)
    notes = _notes(recordings, found)
    if namespace.json:
        print(json_text(tuned.as_json(found, recordings, began, notes)))
    else:
        show(tuned.told(found, recordings, began, notes, width()))
    if target is not None:
        _write(target, found, ask=not namespace.yes, out=sys.stderr if namespace.json else sys.stdout)
    return 130 if found.stopped == "interrupted" else 0


def _notes(recordings: Sequence[Recording], found: TuningResult) -> list[str]:
    """What is wrong with the recordings, and what the model can't know."""
    lines = []
    if any(each.began.foreign for each in recordings):
        lines.append("what was imported ran without HiveMind, so it begins with HiveMind's usual settings")
    for place, each in enumerate(recordings):
        runs = () if found.check is None else found.check.after_in(place)
        if found.goal == "dollars" and each.figures.unpriced_tokens:
            lines.append(f"{each.name}: of {each.figures.unpriced_tokens:,} tokens the price isn't known")
        lines += [f"{each.name}: {line}" for line in (*each.warnings, *extrapolation_notes(each.figures, runs))]
    return lines


def _plan(namespace: argparse.Namespace) -> TuningPlan:
    """Raises: UsageError."""
    goal = namespace.goal.replace("-", "_")
    if goal not in _GOALS:
        raise UsageError(f"--goal {namespace.goal[:40]}: must be {', '.join(_GOALS[:-1])} or {_GOALS[-1]}")
    for flag, value, least, most in (
        ("--trials", namespace.trials, 1, _MOST_TRIALS),
        ("--seeds", namespace.seeds, 2, _MOST_SEEDS),
        ("--seed", namespace.seed, 0, _MOST_SEED),
    ):
        if not least <= value <= most:
            raise UsageError(f"{flag} {value}: must be a whole number from {least:,} to {most:,}")
    if namespace.timeout is not None and not namespace.timeout > 0:
        raise UsageError(f"--timeout {namespace.timeout:g}: must be a number of seconds above 0")
    if namespace.yes and namespace.write is None:
        raise UsageError("--yes: goes with --write")
    return TuningPlan(goal, namespace.trials, namespace.seeds, namespace.seed)


def _check(recordings: Sequence[Recording], goal: Goal) -> None:
    """Raises: UsageError: they can't answer this."""
    if goal == "dollars":
        for each in recordings:
            if each.figures.tokens and each.figures.dollars is None:
                raise UsageError(f"--goal dollars: no price is known of what was used in {each.name}")


def _search(
    paths: Sequence[Path],
    began: Sequence[RecordedSettings],
    dimensions: Sequence[Dimension],
    plan: TuningPlan,
    timeout: float | None,
) -> TuningResult:
    began_at = time.monotonic()

    def spent() -> float:
        return 0.0 if timeout is None else (time.monotonic() - began_at) / timeout

    tell, clear = _progress(plan.goal)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        with Workers(paths) as workers:
            return Tuner(workers, began, dimensions, plan, tell, spent).run()
    finally:
        signal.signal(signal.SIGTERM, before)
        clear()


def _end(number: int, _: FrameType | None) -> None:
    """In good order, so that the simulating processes end too."""
    sys.exit(128 + number)


def _progress(goal: Goal) -> tuple[Callable[[TuningProgress], None], Callable[[], None]]:
    """A line on standard error that is written anew, where that is a terminal; and what takes it away."""
    if not sys.stderr.isatty():
        return lambda _: None, lambda: None

    def tell(progress: TuningProgress) -> None:
        print(f"{recorded.CLEARED}{tuned.standing(progress, goal)}", end="", file=sys.stderr, flush=True)

    return tell, lambda: print(recorded.CLEARED, end="", file=sys.stderr, flush=True)


def _target(namespace: argparse.Namespace) -> Path | None:
    """The file to write, if any. Asked before the search, which would be for nothing.

    Raises: UsageError: it can't be read as settings, or there is nobody to ask.
    """
    if namespace.write is None:
        return None
    from hivemind.settings import settings_file
    from hivemind.settings.write import draft

    if not namespace.yes and not sys.stdin.isatty():
        raise UsageError("--write: there is nobody to ask; --yes writes it without asking")
    named = namespace.write
    path = Path(named) if named else settings_file(namespace, environ=os.environ, cwd=Path.cwd())
    try:
        draft(path, {})
    except Rejected as error:
        raise UsageError(str(error)) from None
    return path


def _write(path: Path, found: TuningResult, *, ask: bool, out: TextIO) -> None:
    """Raises: UsageError: there is nothing to write, or it can't be written."""
    from hivemind.settings.write import draft, write

    if found.check is None or not found.check.better:
        raise UsageError("nothing is written: no settings were found that are surely better")
    try:
        made = draft(path, _numbers([each.change for each in found.kept]))
        if not made.diff:
            print(f"{path} says so already", file=out)
            return
        print("\n".join(["", *made.diff]), file=out)
        if ask and not _agreed(path):
            print("nothing is written", file=out)
            return
        write(made)
    except Rejected as error:
        raise UsageError(str(error)) from None
    print(f"{path} is written; a proxy reads it when it starts", file=out)


def _numbers(changes: Sequence[Change]) -> Mapping[str, float]:
    return {change.name: change.value for change in changes if isinstance(change.value, int | float)}


def _agreed(path: Path) -> bool:
    print(f"write this to {printable(str(path))}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


command = Command(_configure, _run)
