"""Shared by tests of commands that work on journals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from hivemind.cli.lab import tune, what_if
from hivemind.journal.figures import Figures
from hivemind.lab.foresight import draws
from hivemind.lab.foresight.answer import foretell
from hivemind.lab.foresight.draws import Job, one_by_one, remembering
from hivemind.lab.foresight.heldout import HeldOut, held_out
from hivemind.lab.foresight.prediction import Prediction
from hivemind.lab.simulate import recording as recordings
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.tune.simulations import Simulations
from hivemind.processes import Beside
from hivemind.providers.published import Published
from hivemind.scheduler.types import Price


@pytest.fixture
def at_a_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of one's own, a terminal a hundred columns wide, and no journals but one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HIVEMIND_STATE_DIR", str(tmp_path / "state"))


@contextmanager
def _simulated_here(recordings: Sequence[Recording], price: Price | None) -> Iterator[Simulations]:
    yield Simulations(recordings, price)


@pytest.fixture
def in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations run in the test's process, because a second process takes a second to import the simulator."""
    monkeypatch.setattr(tune, "simulations", _simulated_here)


class _Foreseen:
    """What is known of a recording: figures with its own settings, the check of its models, and answers by changes."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.checked: Beside[HeldOut] = Beside(partial(held_out, recording))
        self.unchanged: dict[Job, Figures] = {}
        self.answers: dict[tuple[Change, ...], Prediction] = {}


_FORESEEN: dict[object, _Foreseen] = {}


@pytest.fixture
def foreseen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same journal is read once and asked the same once for all tests of a worker, with as few draws as may be."""

    def load(paths: Sequence[Path], price: Price | None = None, *, tier: tuple[Published, ...] = ()) -> Recording:
        key = tuple((path.name, path.read_bytes()) for path in paths)
        if key not in _FORESEEN:
            _FORESEEN[key] = _Foreseen(recordings.load(paths, price, tier=tier))
        return _FORESEEN[key].recording

    def answer(recording: Recording, changes: Sequence[Change], price: Price | None, **_: object) -> Prediction:
        known = next(each for each in _FORESEEN.values() if each.recording is recording)
        if tuple(changes) not in known.answers:
            runs = remembering(one_by_one, known.unchanged)
            found = foretell(recording, changes, price, runs=runs, checked=known.checked)
            known.answers[tuple(changes)] = found
        return known.answers[tuple(changes)]

    monkeypatch.setattr(draws, "MOST_DRAWS", draws.LEAST_DRAWS)
    monkeypatch.setattr(what_if, "load", load)
    monkeypatch.setattr(what_if, "foretell", answer)
