"""`hivemind tune --verify`: the recorded and the chosen settings for real, beside what was promised."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from hivemind.cli import client
from hivemind.cli.lab import comparison
from hivemind.cli.lab.progress import Progress
from hivemind.cli.operator.explore import ExperimentProgress, differences, planned
from hivemind.cli.operator.explore import sentence as experiment_sentence
from hivemind.cli.operator.live import Outcome, Trial, explore, signed
from hivemind.cli.plugin import REPLAYS
from hivemind.errors import UsageError
from hivemind.journal.figures import Figures
from hivemind.lab.explore.engine import Experiment
from hivemind.lab.foresight.draws import part_drawn_from
from hivemind.lab.foresight.ranges import Range
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.tune.promise import REDUCED, Goal, Promise
from hivemind.lab.tune.space import Changes
from hivemind.scheduler.types import Price
from hivemind.text.humanise import percent, plural
from hivemind.text.table import wrapped

if TYPE_CHECKING:
    from hivemind.cli.plugin import Replay

WHERE = ("mock", "live")
_RUNS = 3
"""Runs of each recording with each settings, in front of the mock."""


@dataclass(frozen=True, slots=True)
class MockRuns:
    """Runs in front of a mock of the recorded provider, pairwise with the same luck."""

    before: tuple[Figures, ...]
    """With the recorded settings."""
    after: tuple[Figures, ...]

    def gain(self, goal: Goal) -> float:
        """Return the share that the chosen settings really took off the goal's figure."""
        of, least = REDUCED[goal].of, REDUCED[goal].least
        ratios = [
            math.log(max(of(two) or 0.0, least) / max(of(one) or 0.0, least))
            for one, two in zip(self.before, self.after, strict=True)
        ]
        return -math.expm1(fmean(ratios))


@dataclass(frozen=True, slots=True)
class LiveRuns:
    """An experiment on live traffic."""

    trial: Trial
    experiment: Experiment
    outcome: Outcome


def replay_named(name: str) -> Replay:
    """Return what replays recordings by this name. Raises: UsageError: no installed package has it."""
    from importlib.metadata import entry_points

    found = next(iter(entry_points(group=REPLAYS, name=name)), None)
    if found is None:
        raise UsageError(f"--verify {name}: the package of the mock provider isn't installed; try make setup")
    replay: Replay = found.load()
    return replay


def verified_by_mock(
    changes: Changes, recordings: Sequence[Recording], price: Price | None, progress: Progress
) -> MockRuns:
    """Run recordings with and without changes; of long ones a part. Takes seconds.

    Raises: UsageError: there is no mock, or a recording can't be replayed.
    """
    replay = replay_named("mock")
    runs: tuple[list[Figures], list[Figures]] = ([], [])
    jobs = [(part_drawn_from(each, seed), seed) for each in recordings for seed in range(_RUNS)]
    for number, (part, seed) in enumerate(jobs, 1):
        progress.tell(f"verifying: run {number} of {len(jobs)} with each settings")
        for place, each in enumerate(((), changes)):
            runs[place].append(replay(part, each, seed, price))
    return MockRuns(tuple(runs[0]), tuple(runs[1]))


def verified_live(changes: Changes, namespace: argparse.Namespace) -> LiveRuns:
    """Let the present and the chosen settings of a running proxy take turns, and put the present ones back.

    Raises: UsageError; HiveMindError: there is no proxy, or another experiment runs.
    """
    experiment, slice_s, transition_s = planned(namespace)
    changed = {each.name: float(each.value) for each in changes if isinstance(each.value, int | float)}
    trial = Trial(signed(client.find_proxy(namespace)), changed, namespace.upstream, slice_s, transition_s)
    progress = ExperimentProgress(experiment, slice_s)
    try:
        return LiveRuns(trial, experiment, explore(trial, experiment, progress.tell, keep=False))
    finally:
        progress.close()


def speaks_against(runs: MockRuns | LiveRuns, goal: Goal) -> bool:
    """Return whether the chosen settings were no better for real, or an experiment was interrupted."""
    if isinstance(runs, LiveRuns):
        return runs.experiment.verdict == "worse" or runs.outcome.exit_code != 0
    return runs.gain(goal) <= 0


def mock_text(runs: MockRuns, promise: Promise, name: str, room: int | None) -> list[str]:
    """Return what came of it beside what was promised."""
    assert promise.gain is not None
    really = runs.gain(promise.goal)
    said = (
        f"In front of a mock of this provider, {plural(len(runs.after), 'run')} with each settings, they really"
        f" {'took ' + percent(really) + ' off' if really >= 0 else 'added ' + percent(-really) + ' to'} the {name};"
        f" promised: {range_text(promise.gain)}."
    )
    return [*wrapped(said, room), "", *comparison.means(runs.before, runs.after, room)]


def live_text(runs: LiveRuns, promise: Promise, name: str, room: int | None) -> list[str]:
    """Return what came of it beside what was promised."""
    assert promise.gain is not None
    text = wrapped(f"On live traffic: {experiment_sentence(runs.trial, runs.experiment)}", room)
    text += wrapped(_promised_live(promise, name), room)
    differ = [
        f"{each} {value:g}" for each, value in runs.outcome.before.items() if value == runs.trial.changed.get(each)
    ]
    if differ:
        text += wrapped(f"{' and '.join(differ)} was in force already.", room)
    table = differences(runs.experiment)
    return [*text, "", *table] if table else text


def _promised_live(promise: Promise, name: str) -> str:
    gain = promise.gain
    assert gain is not None
    if promise.goal != "wall_time":
        return f"Promised: {range_text(gain)} off the {name}."
    more = [1 / (1 - min(each, 0.99)) - 1 for each in (gain.value, gain.low, gain.high)]
    return f"Promised: {range_text(gain)} off the {name}, which is {range_text(Range(*more))} more requests a minute."


def range_text(gain: Range) -> str:
    """Return a share with its interval, as in `16 % (10 to 20 %)`."""
    return f"{percent(gain.value)} ({percent(gain.low).removesuffix(' %')} to {percent(gain.high)})"


def verified_json(runs: MockRuns | LiveRuns, promise: Promise) -> dict[str, object]:
    """Return the same for programs."""
    gain = promise.gain
    promised = None if gain is None else {"value": gain.value, "low": gain.low, "high": gain.high}
    if isinstance(runs, LiveRuns):
        rate = runs.experiment.rate()
        return {
            "where": "live",
            "sentence": experiment_sentence(runs.trial, runs.experiment),
            "verdict": runs.experiment.verdict,
            "pairs": len(runs.experiment.counted),
            "more_answered": None if rate is None else {"value": rate.middle, "low": rate.low, "high": rate.high},
            "promised": promised,
        }
    return {"where": "mock", "runs": len(runs.after), "real": runs.gain(promise.goal), "promised": promised}
