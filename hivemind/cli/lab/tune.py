"""`hivemind tune`: search for settings that would have served recorded traffic better, and save them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TextIO

from hivemind.cli.address import add_folder_flags
from hivemind.cli.journals import CLEAR_LINE, find_journals, prices_at, progress_line
from hivemind.cli.lab import comparison
from hivemind.cli.plugin import Command
from hivemind.console import print_json, printable
from hivemind.errors import UsageError
from hivemind.lab.comparison import extrapolation_notes
from hivemind.lab.simulate.overrides import value_text
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.tune.search import DEFAULT_KNOBS, Dimension, RecordedSettings, knobs_named, space, values_of
from hivemind.lab.tune.tuning import Goal, Tuner, TuningPlan, TuningProgress, TuningResult, cost
from hivemind.lab.tune.workers import workers
from hivemind.scheduler.commands import Rejected
from hivemind.text.humanise import dollars, duration, percent, plural
from hivemind.text.table import Cell, Column, lines, show, styled, width, wrapped

_MOST_TRIALS, _MOST_SEEDS, _MOST_SEED = 10_000, 1000, 2**32 - 1
GOALS: dict[Goal, str] = {"wall_time": "wall time", "p95_wait": "p95 of waits", "dollars": "dollars"}
_WORTH = "worth: the share of the gain that is lost if that change alone is undone"
_STAGES = {"search": "searching", "choose": "choosing", "check": "validating"}
_CHANGES = (
    Column("SETTING"),
    Column("RECORDED", right=True),
    Column("BEST FOUND", right=True),
    Column("WORTH", right=True),
)
_JOURNALS = (
    Column("JOURNAL", cut=True),
    Column("AS RECORDED", right=True),
    Column("BEST FOUND", right=True),
    Column("DIFFERENCE", right=True),
)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE [FILE ...] [--goal GOAL] [flags]"
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", help="journals: a path, a name or the beginning of it, or latest")
    goal = "what to reduce: the time until all is done, the p95 of waits, or the dollars of all tokens [wall_time]"
    add("--goal", metavar="|".join(GOALS), default="wall_time", help=goal)
    add("--knobs", metavar="NAMES", help=f"knobs to search, separated by commas [{', '.join(DEFAULT_KNOBS)}]")
    add("--trials", metavar="N", type=int, default=60, help="candidates to try [60]")
    add("--seeds", metavar="N", type=int, default=20, help="runs that validate the result [20]")
    add("--seed", metavar="S", type=int, default=0, help="seed of the search [0]")
    timeout = "time for searching and choosing; validating the result comes on top"
    add("--timeout", metavar="SECONDS", type=float, help=timeout)
    add("--json", action="store_true", help="print JSON")
    add("--write", metavar="FILE", nargs="?", const="", help="save the result in hivemind.toml or this file")
    add("--yes", action="store_true", help="with --write: don't ask")
    add_folder_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    plan = _plan(namespace)
    target = _target(namespace)
    names = DEFAULT_KNOBS if namespace.knobs is None else knobs_named(namespace.knobs)
    paths = find_journals(namespace, namespace.files)
    with progress_line("reading"):
        price = prices_at()
        recordings = [load(path, price) for path in paths]
    unpriced = next((each.name for each in recordings if each.figures.tokens and each.figures.dollars is None), None)
    if plan.goal == "dollars" and unpriced is not None:
        raise UsageError(f"--goal dollars: no price is known of what was used in {unpriced}")
    began = [
        RecordedSettings(each.began.config, tuple(each.lanes.values()), each.figures.busiest) for each in recordings
    ]
    found = _search(paths, began, space(names, began), plan, namespace.timeout)
    notes = _notes(recordings, found)
    if namespace.json:
        print_json(as_json(found, recordings, began, notes))
    else:
        show(as_text(found, recordings, began, notes, width()))
    if target is not None:
        _write(target, found, ask=not namespace.yes, out=sys.stderr if namespace.json else sys.stdout)
    return 130 if found.stopped == "interrupted" else 0


def _notes(recordings: Sequence[Recording], found: TuningResult) -> list[str]:
    """Return what limits the recordings and the model."""
    lines = []
    if any(each.began.foreign for each in recordings):
        lines.append("what was imported ran without HiveMind, so it begins with HiveMind's usual settings")
    for place, each in enumerate(recordings):
        runs = () if found.check is None else found.check.of(place)[1]
        if found.goal == "dollars" and each.figures.unpriced_tokens:
            lines.append(f"{each.name}: of {plural(each.figures.unpriced_tokens, 'token')} the price isn't known")
        lines += [f"{each.name}: {line}" for line in (*each.warnings, *extrapolation_notes(each.figures, runs))]
    return lines


def _plan(namespace: argparse.Namespace) -> TuningPlan:
    goal = namespace.goal.replace("-", "_")
    if goal not in GOALS:
        raise UsageError(f"--goal {namespace.goal[:40]}: must be {', '.join(list(GOALS)[:-1])} or {list(GOALS)[-1]}")
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

    shown = sys.stderr.isatty()

    def show_progress(progress: TuningProgress) -> None:
        if shown:
            line = progress_text(progress, plan.goal)
            print(f"{CLEAR_LINE}{line}", end="", file=sys.stderr, flush=True)

    before = signal.signal(signal.SIGTERM, _end)
    try:
        with workers(paths) as simulate:
            return Tuner(simulate, began, dimensions, plan, show_progress, spent).run()
    finally:
        signal.signal(signal.SIGTERM, before)
        if shown:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)


def _end(number: int, _: FrameType | None) -> None:
    """Exit in order, so that worker processes end too."""
    sys.exit(128 + number)


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

    if found.check is None or not found.check.better:
        raise UsageError("nothing is written: no settings were found that are certainly better")
    values = {each.change.name: each.change.value for each in found.kept}
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


def as_text(
    found: TuningResult,
    recordings: Sequence[Recording],
    began: Sequence[RecordedSettings],
    notes: Sequence[str],
    room: int | None,
) -> list[str]:
    """Return the result for people."""
    foreign = all(each.began.foreign for each in recordings)
    why = {"time": " until time was up", "interrupted": " until interrupted"}.get(found.stopped, "")
    text = [styled(f"goal: less {GOALS[found.goal]}", "bold") + f"; {found.trials:,} candidates tried{why}", ""]
    if found.kept:
        text += lines(_named(_CHANGES, "USUAL") if foreign else _CHANGES, _changes(found, began), room)
        if any(each.worth is not None for each in found.kept):
            text += [styled(line, "dim") for line in wrapped(_WORTH, room)]
        text += [""]
    if found.check is not None:
        if len(recordings) > 1:
            heads = _named(_JOURNALS, comparison.USUAL) if foreign else _JOURNALS
            text += [*lines(heads, _journals(found, recordings), room), ""]
        text += [*comparison.means(found.check.before, found.check.after, room, foreign=foreign), ""]
    sure = verdict(found)
    for line, style in ((sure.text, sure.style), *((f"Note: {printable(note)}.", "warn") for note in notes)):
        text += [styled(each, style) for each in wrapped(line, room)]
    return text


def _named(columns: tuple[Column, ...], second: str) -> tuple[Column, ...]:
    return (columns[0], replace(columns[1], title=second), *columns[2:])


def verdict(found: TuningResult) -> Cell:
    """Return whether there is a gain, and how certain it is."""
    check, name = found.check, GOALS[found.goal]
    if not found.kept:
        interrupted = " The search was interrupted." if found.stopped == "interrupted" else ""
        return Cell(f"No better settings found in {found.trials:,} trials.{interrupted}", "warn")
    if check is None:
        took = _share(found.before - found.best, found.before)
        text = f"Interrupted before validation: in the search it took {took} off the {name}, some of which is luck."
        return Cell(text, "warn")
    runs = f"on {check.gain.runs} seeds not used in the search"
    gain, low, high = (_share(each, check.cost.mean) for each in (check.gain.mean, check.gain.low, check.gain.high))
    sure = f"{runs}, between {low} and {high} (95 % confidence)"
    if check.acceptable and check.gain.mean > 0 and check.better:
        return Cell(f"They take {gain} off the {name}; {sure}.", "good")
    if not check.acceptable:
        why = f"{runs}, fewer agents finished or more requests failed with the best ones"
    elif check.gain.mean <= 0:
        why = f"{runs}, what looked best isn't better"
    else:
        little = "which is within the noise" if check.gain.low > 0 else "so the gain may be luck"
        why = f"the best ones take {gain} off the {name}; {sure}, {little}"
    return Cell(f"No better settings found: {why}.", "warn")


def progress_text(progress: TuningProgress, goal: Goal) -> str:
    """Return the progress in a short line."""
    of = f" {progress.done} of {progress.of}" if progress.of else ""
    took = _share(progress.before - progress.best, progress.before)
    so_far = f", best so far {amount(goal, progress.best)} (-{took})" if progress.best < progress.before else ""
    return f"{_STAGES[progress.stage]}{of}{so_far}"


def amount(goal: Goal, value: float) -> str:
    """Return a cost as text."""
    return dollars(value) if goal == "dollars" else duration(value)


def as_json(
    found: TuningResult, recordings: Sequence[Recording], began: Sequence[RecordedSettings], notes: Sequence[str]
) -> dict[str, object]:
    """Return the result for programs."""
    check = found.check
    return {
        "goal": found.goal,
        "journals": [each.name for each in recordings],
        "trials": found.trials,
        "stopped": found.stopped,
        "better": check is not None and check.better,
        "changes": {each.change.name: each.change.value for each in found.kept},
        "recorded": {each.change.name: values_of(each.change.name, began) for each in found.kept},
        "worth": {each.change.name: each.worth for each in found.kept},
        "search": {"recorded": found.before, "best": found.best},
        "check": check
        and {
            "seeds": check.gain.runs,
            "recorded": check.cost.mean,
            "gain": check.gain.mean,
            "gain_low": check.gain.low,
            "gain_high": check.gain.high,
            "nobody_worse": check.acceptable,
        },
        "notes": notes,
    }


def _changes(found: TuningResult, began: Sequence[RecordedSettings]) -> list[list[Cell | str]]:
    rows: list[list[Cell | str]] = []
    for each in found.kept:
        values = sorted(set(values_of(each.change.name, began)))
        was = " to ".join(value_text(value) for value in dict.fromkeys((values[0], values[-1])))
        worth = "" if each.worth is None else percent(each.worth) if each.worth < 1 else "all of it"
        rows.append([each.change.name, was, Cell(value_text(each.change.value), "bold"), worth])
    return rows


def _journals(found: TuningResult, recordings: Sequence[Recording]) -> list[list[Cell | str]]:
    assert found.check is not None
    check = found.check
    rows: list[list[Cell | str]] = []
    for place, recording in enumerate(recordings):
        before, after = (cost(found.goal, runs) for runs in check.of(place))
        better = after < before
        change = (after - before) / before if before else 0.0
        text = f"{100 * change:+.1f} %" if abs(change) >= 0.0005 else "="
        gain = Cell(text, "good" if better else "bad" if after > before else "dim")
        rows.append([printable(recording.name), amount(found.goal, before), amount(found.goal, after), gain])
    return rows


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


command = Command(_configure, _run)
