"""`python -m benchmarks.foresight.tuned`: tune worlds drawn from seeds, and really run what is recommended."""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median

import msgspec

from benchmarks.figures import Figure, markdown
from benchmarks.figures import table as figures_table
from benchmarks.foresight.cases import generator_version, real_runs, recorded
from benchmarks.worlds.strange.kinds import strange_world
from benchmarks.worlds.world import World, with_changes, world
from hivemind import __version__
from hivemind.errors import HiveMindError, UsageError
from hivemind.journal.figures import Figures
from hivemind.lab.simulate.recording import load
from hivemind.lab.tune.promise import REDUCED, Goal
from hivemind.lab.tune.simulations import Simulations
from hivemind.lab.tune.space import DEFAULT_KNOBS, RecordedSettings
from hivemind.lab.tune.tuning import Tuner, TuningPlan
from hivemind.records import replace
from hivemind_mock.bench.main import JsonOutput, format_table, show_progress

NAME = "foresight-tuned-figures.md"
_PROCESSES = 2
_LUCKS = (2, 3, 4)
"""Of the real runs."""
_DETUNED = (
    *("", "aimd.latency_target_s=2", "max_concurrency=30", "retry.base_s=10", "aimd.beta=0.2"),
    *("", "circuit.cooldown_s=60", "max_concurrency=2", "aimd.latency_target_s=3", "circuit.threshold=0.15"),
)
"""What worlds in turn are recorded with, so that there is something to tune."""
_HALF = 0.5
"""The real gain has to be at least this share of the promised one."""
_MUCH = 0.1
"""A real gain of this share is one that tuning should find."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning said of a world, and what came of it."""

    world: str
    detuned: str
    changes: tuple[str, ...]
    """The best found."""
    why_not: str
    """Empty: recommended."""
    promised: tuple[float, float, float] | None
    """The gain, and its interval."""
    real: tuple[float, ...]
    """By luck, the gain."""
    noise: float
    """What two real runs of the same differ by, as a share."""
    errors: tuple[int, int]
    """Failed attempts in the real runs, before and after."""
    finished: tuple[int, int]
    experiment: tuple[str, ...] = ()
    """What is named as worth an experiment."""
    expected: float = 0.0
    """The gain that it had in the search."""
    tried: tuple[float, ...] = ()
    """By luck, what it really gained."""
    undone: tuple[float, ...] = ()
    """By luck, what the settings that it was drawn with really gain; empty: it was recorded with these."""

    @property
    def gain(self) -> float:
        """The mean real gain."""
        return fmean(self.real) if self.real else 0.0

    @property
    def much_to_gain(self) -> bool:
        """Much is to be gained: undoing what it is recorded with does so for real."""
        return bool(self.undone) and fmean(self.undone) >= _MUCH

    @property
    def within(self) -> list[bool]:
        """By luck, whether the real gain is within the interval."""
        return [] if self.promised is None else [self.promised[1] <= each <= self.promised[2] for each in self.real]

    @property
    def holds(self) -> bool:
        """The real gain is at least half of the promised one."""
        return self.promised is not None and self.gain >= _HALF * self.promised[0]

    @property
    def loses(self) -> bool:
        """It was worse for real, by more than two real runs differ by, or fewer agents finished in more runs."""
        return self.gain < -self.noise or self.finished[1] < self.finished[0] - len(self.real)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.foresight.tuned", description=__doc__)
    add = parser.add_argument
    add("--seeds", metavar="A:B", default="0:80", help="worlds of the seeds from A to B - 1 [0:80]")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--kinds", metavar="KIND+KIND", help="worlds of these kinds alone")
    where.add_argument("--strange", action="store_true", help="worlds that no model describes exactly")
    add("--goal", choices=("wall_time", "p95_wait"), default="wall_time", help="what to reduce [%(default)s]")
    add("--cache", metavar="FOLDER", help="where what the worlds did is kept [nowhere]")
    add("--each", action="store_true", help="print every world, too")
    add("--all", action="store_true", help="really run what isn't recommended, too")
    add("--json", metavar="FILE", help="write the figures to a file; - for standard output")
    add("--docs", metavar="FOLDER", type=Path, help=f"write {NAME} there")
    namespace = parser.parse_args(argv)
    try:
        output = JsonOutput(namespace.json)
        first, _, last = namespace.seeds.partition(":")
        if not (first.isdecimal() and last.isdecimal()):
            raise UsageError(f"--seeds {namespace.seeds}: must be A:B, as in 0:80")
        if namespace.docs and not namespace.docs.is_dir():
            raise UsageError(f"--docs {namespace.docs}: must be a folder")
        kinds = namespace.kinds.split("+") if namespace.kinds else None
        drawn = strange_world if namespace.strange else partial(world, kinds=kinds)
        seeds = range(int(first), int(last))
        found = measured(seeds, drawn, namespace.goal, namespace.cache, everything=namespace.all)
    except HiveMindError as error:
        print(f"benchmarks.foresight.tuned: {error}", file=sys.stderr)
        return error.exit_code
    show_progress("")
    made = figures(found)
    if namespace.docs:
        (namespace.docs / NAME).write_text(text_of(namespace.seeds, made), "utf-8")
    output.write(msgspec.json.format(msgspec.json.encode({"figures": made, "worlds": found}), indent=2) + b"\n")
    if not output.replaces_tables:
        print(table(found if namespace.each else [each for each in found if not each.why_not]) + "\n")
        print(figures_table("tuned", made))
    return 0


def measured(
    seeds: Sequence[int],
    drawn: Callable[[int], World],
    goal: Goal = "wall_time",
    cache: str | None = None,
    *,
    everything: bool = False,
) -> list[Tuned]:
    """Return what came of tuning the worlds of these seeds. `everything`: what isn't recommended really runs, too."""
    with tempfile.TemporaryDirectory(prefix="hivemind-tuned-") as made:
        work = partial(tuned, drawn=drawn, goal=goal, folder=Path(cache or made), everything=everything)
        found = []
        with ProcessPoolExecutor(_PROCESSES) as pool:
            for number, each in enumerate(pool.map(work, seeds), 1):
                show_progress(f"tuned: world {number} of {len(seeds)}")
                found.append(each)
    return found


def tuned(seed: int, drawn: Callable[[int], World], goal: Goal, folder: Path, *, everything: bool = False) -> Tuned:
    """Record a world, tune it, and really run it with the chosen settings and with the recorded ones."""
    plain, detuned = drawn(seed), _DETUNED[seed % len(_DETUNED)]
    made = replace(plain, settings=with_changes(plain.settings, [detuned])) if detuned else plain
    place = folder / generator_version() / f"{made.name}-{detuned or 'as-is'}"
    place.mkdir(parents=True, exist_ok=True)
    recording = load(recorded(made, place / "recorded.jsonl"))
    began = RecordedSettings(recording.began.config, tuple(recording.lanes.values()), recording.figures.busiest)
    found = Tuner(Simulations([recording], None), [began], DEFAULT_KNOBS, TuningPlan(goal, 60)).run()
    changes = tuple(map(str, found.kept))
    promise = found.promise
    gain = None if promise is None or promise.gain is None else promise.gain
    promised = None if gain is None else (gain.value, gain.low, gain.high)
    why_not = "nothing" if promise is None else promise.why_not
    experiment = () if found.experiment is None else tuple(map(str, found.experiment.changes))
    expected = 0.0 if found.experiment is None else found.experiment.gain
    gains = partial(_gains, goal)
    tried = gains(_real(made, (), place), _real(made, experiment, place)) if everything and experiment else ()
    undone = gains(_real(made, (), place), _real(plain, (), place, "undone")) if detuned else ()
    if promise is None or (why_not and not everything):
        nothing = ((), 0.0, (0, 0), (0, 0))
        return Tuned(made.name, detuned, changes, why_not, promised, *nothing, experiment, expected, tried, undone)
    before, after = _real(made, (), place), _real(made, changes, place)
    noise = max(abs(math.log(1 - gain)) for one in before for gain in gains([one] * len(before), before))
    return Tuned(
        made.name,
        detuned,
        changes,
        why_not,
        promised,
        gains(before, after),
        noise,
        (_errors(before), _errors(after)),
        (sum(run.finished for run in before), sum(run.finished for run in after)),
        experiment,
        expected,
        tried,
        undone,
    )


def _gains(goal: Goal, before: Sequence[Figures], after: Sequence[Figures]) -> tuple[float, ...]:
    reduced = REDUCED[goal]
    figures = [[max(reduced.of(run) or 0.0, reduced.least) for run in runs] for runs in (before, after)]
    return tuple(1 - two / one for one, two in zip(*figures, strict=True))


def _errors(runs: Sequence[Figures]) -> int:
    return sum(run.attempts - run.answered for run in runs)


def _real(world: World, changes: Sequence[str], place: Path, name: str = "recorded") -> list[Figures]:
    """Return the figures of runs that really had these changes; `name`: of the runs without changes."""
    return real_runs(world, changes, _LUCKS, place / f"{' '.join(changes) or name}.json")


def figures(found: Sequence[Tuned]) -> list[Figure]:
    """Return the figures with their targets."""
    recommended = [each for each in found if not each.why_not]
    made = [Figure("worlds for which something is recommended", _percent(recommended, found), 10.0, True, "%")]
    if recommended:
        hold = [each for each in recommended if each.holds]
        gain = 100 * median(each.gain for each in recommended)
        made += [
            Figure(
                "recommended: real gain at least half of the promised one", _percent(hold, recommended), 90.0, True, "%"
            ),
            Figure("recommended: loses", float(sum(each.loses for each in recommended)), 0.0, False, ""),
            Figure("recommended: median of the real gains", gain, 5.0, True, "%"),
        ]
    if runs := [run for each in found for run in each.within]:
        what = "90 % intervals of gains hold of the real runs"
        made.append(Figure(what, 100 * sum(runs) / len(runs), 80.0, True, "%"))
    if to_gain := [each for each in found if each.much_to_gain]:
        some = [each for each in to_gain if not each.why_not]
        told = [each for each in to_gain if not each.why_not or each.experiment]
        what = f"{100 * _MUCH:.0f} % or more to gain"
        made += [
            Figure(f"{what}: recommended", _percent(some, to_gain), 40.0, True, "%"),
            Figure(f"{what}: recommended, or an experiment named", _percent(told, to_gain), 90.0, True, "%"),
        ]
    return made


def text_of(seeds: str, made: Sequence[Figure]) -> str:
    """Return the figures of worlds of these seeds for the manual."""
    about = f"Worlds of the seeds {seeds}; version {__version__}, {os.cpu_count()} cores."
    return f"{about}\n\n{markdown('tune', made)}"


def _percent(some: Sequence[Tuned], of: Sequence[Tuned]) -> float:
    return 100 * len(some) / len(of)


def table(found: Sequence[Tuned]) -> str:
    """Return a row for each world."""
    head = (
        "world",
        "recorded with",
        "best found",
        "recommended",
        "promised",
        "real",
        "noise",
        "errors",
        "finished",
        "undone",
        "experiment",
    )
    return format_table([head, *map(_row, found)], left=3)


def _row(each: Tuned) -> tuple[str, ...]:
    said = "" if each.promised is None else "{:.1%} ({:.1%} to {:.1%})".format(*each.promised)
    real = " ".join(f"{gain:.1%}" for gain in each.real)
    before = (f"{each.noise:.1%}", f"{each.errors[0]} {each.errors[1]}", f"{each.finished[0]} {each.finished[1]}")
    return (
        each.world,
        each.detuned,
        " ".join(each.changes),
        f"no: {each.why_not}" if each.why_not else "yes",
        said,
        real,
        *(before if each.real else ("", "", "")),
        f"{fmean(each.undone):.1%}" if each.undone else "",
        _experiment(each),
    )


def _experiment(each: Tuned) -> str:
    if not each.experiment:
        return ""
    real = " ".join(f"{gain:.1%}" for gain in each.tried)
    return f"{' '.join(each.experiment)}: {each.expected:.1%}{real and f', real {real}'}"


if __name__ == "__main__":
    sys.exit(main())
