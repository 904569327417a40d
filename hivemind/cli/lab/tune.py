"""`hivemind tune`: search for settings that would have served recorded traffic better, and save them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from hivemind.lab.tune.tuning import TimeIsUp, Tuner, TuningPlan, TuningResult
from hivemind.prices import prices_at
from hivemind.records import replace
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.types import Price
from hivemind.text.humanise import plural
from hivemind.text.table import show, width

_MOST_TRIALS, _MOST_SEEDS = 10_000, 1000
_LEAST_SEEDS = 4
_FOR_THE_END, _FOR_THE_BEGINNING_S = 0.03, 0.5
"""What is left of `--timeout` for ending processes and printing, as a share, and for what was before the clock ran."""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE [FILE ...] [--goal GOAL] [flags]"
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", help="journals: a path, a name or the beginning of it, or latest")
    goal = "what to reduce: the time until all is done, the p95 of waits, or the dollars of all tokens [wall_time]"
    add("--goal", metavar="|".join(GOALS), default="wall_time", help=goal)
    add("--knobs", metavar="NAMES", help=f"knobs to search, separated by commas [{', '.join(DEFAULT_KNOBS)}]")
    add("--trials", metavar="N", type=int, default=60, help="candidates to try at most [60]")
    add("--seeds", metavar="N", type=int, help="draws that validate the result [6 to 12, by the recording's length]")
    add("--timeout", metavar="SECONDS", type=float, help="time for everything, from reading to validating [none]")
    add("--json", action="store_true", help="print JSON")
    add("--write", metavar="FILE", nargs="?", const="", help="save the result in hivemind.toml or this file")
    add("--yes", action="store_true", help="with --write: don't ask")
    client.add_place_flags(parser)
    add_folder_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    began_at = time.monotonic()
    plan = _plan(namespace)
    target = _target(namespace)
    names = DEFAULT_KNOBS if namespace.knobs is None else knobs_named(namespace.knobs)
    paths = find_journals(namespace, namespace.files)
    price = prices_at()
    with Progress() as progress:
        tuning = _Tuning(plan, names, paths, price, progress, began_at, namespace.timeout)
        found = tuning.run()
    recordings, began = tuning.recordings, tuning.began
    notes = _notes(recordings, found)
    if not namespace.json:
        show(as_text(found, recordings, began, notes, width()))
    else:
        print_json(as_json(found, recordings, began, notes))
    if target is not None:
        _write(target, found, ask=not namespace.yes, out=sys.stderr if namespace.json else sys.stdout)
    return 130 if found.stopped == "interrupted" else 0


def _plan(namespace: argparse.Namespace) -> TuningPlan:
    goal = namespace.goal.replace("-", "_")
    if goal not in GOALS:
        raise UsageError(f"--goal {namespace.goal[:40]}: must be {', '.join(list(GOALS)[:-1])} or {list(GOALS)[-1]}")
    for flag, value, least, most in (
        ("--trials", namespace.trials, 1, _MOST_TRIALS),
        ("--seeds", namespace.seeds, _LEAST_SEEDS, _MOST_SEEDS),
    ):
        if value is not None and not least <= value <= most:
            raise UsageError(f"{flag} {value}: must be a whole number from {least:,} to {most:,}")
    if namespace.timeout is not None and not namespace.timeout > 0:
        raise UsageError(f"--timeout {namespace.timeout:g}: must be a number of seconds above 0")
    if namespace.yes and namespace.write is None:
        raise UsageError("--yes: goes with --write")
    return TuningPlan(goal, namespace.trials, namespace.seeds)


class _Tuning:
    """Reads recordings and tunes, within the time."""

    def __init__(
        self,
        plan: TuningPlan,
        knobs: Sequence[str],
        paths: Sequence[Path],
        price: Price,
        progress: Progress,
        began_at: float,
        timeout_s: float | None,
    ) -> None:
        self._plan, self._knobs, self._paths, self._price, self._progress = plan, knobs, paths, price, progress
        self._began_at, self._timeout_s = began_at, timeout_s
        self.recordings: list[Recording] = []

    @property
    def began(self) -> list[RecordedSettings]:
        """The settings of each recording."""
        return [
            RecordedSettings(each.began.config, tuple(each.lanes.values()), each.figures.busiest)
            for each in self.recordings
        ]

    def run(self) -> TuningResult:
        """Raises: UsageError: a journal can't be read, or the goal not be reached; HiveMindError."""
        left_s = self._timeout_s
        if left_s is not None:
            left_s = max(left_s / 2, left_s * (1 - _FOR_THE_END) - _FOR_THE_BEGINNING_S)
        nothing = TuningResult(self._plan.goal, 0, (), 0.0, None, None, "time")
        try:
            with _ended_after(left_s), _handled(signal.SIGTERM, _end):
                for number, path in enumerate(self._paths, 1):
                    of = f" {number} of {len(self._paths)}" if len(self._paths) > 1 else ""
                    self._progress.tell(f"reading and fitting{of}")
                    self.recordings.append(load(path, self._price))
                self._check_prices()
                return self._tuned()
        except TimeIsUp:
            return nothing
        except KeyboardInterrupt:
            return replace(nothing, stopped="interrupted")

    def _tuned(self) -> TuningResult:
        fitted_at = time.monotonic()

        def spent() -> float:
            if self._timeout_s is None:
                return 0.0
            left_s = self._began_at + self._timeout_s - fitted_at
            return (time.monotonic() - fitted_at) / max(left_s, 1e-3)

        with simulations(self.recordings, self._price) as simulate:
            tell = lambda each: self._progress.tell(progress_text(each))  # noqa: E731
            return Tuner(simulate, self.began, self._knobs, self._plan, tell, spent).run()

    def _check_prices(self) -> None:
        unpriced = (each.name for each in self.recordings if each.figures.tokens and each.figures.dollars is None)
        if self._plan.goal == "dollars" and (name := next(unpriced, None)) is not None:
            raise UsageError(f"--goal dollars: no price is known of what was used in {name}")


@contextmanager
def _ended_after(seconds: float | None) -> Iterator[None]:
    """Raise :class:`TimeIsUp` after so long, wherever the main thread is then; None: never."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled(signal.SIGALRM, _time_is_up):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)


@contextmanager
def _handled(number: int, handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    try:
        before = signal.signal(number, handler)
    except ValueError:  # not in the main thread, which alone gets signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(number, before)


def _time_is_up(_: int, __: FrameType | None) -> None:
    raise TimeIsUp


def _end(number: int, _: FrameType | None) -> None:
    """Exit in order, so that worker processes end too."""
    sys.exit(128 + number)


def _notes(recordings: Sequence[Recording], found: TuningResult) -> list[str]:
    """Return what limits the recordings and the model."""
    lines = []
    if any(each.began.foreign for each in recordings):
        lines.append("what was imported ran without HiveMind, so it begins with HiveMind's usual settings")
    for each in recordings:
        if found.goal == "dollars" and each.figures.unpriced_tokens:
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


def _write(path: Path, found: TuningResult, *, ask: bool, out: TextIO) -> None:
    """Write the result. Raises: UsageError: there is none, or it can't be written."""
    from hivemind.settings.write import draft, write

    if not found.recommended:
        raise UsageError("nothing is written: no settings were found that are certainly better")
    values = {each.name: each.value for each in found.kept}
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
