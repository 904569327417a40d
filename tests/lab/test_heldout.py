"""The held-out check: what a fit makes of a part of a recording that it hasn't seen."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from lab.kit import recorded, served

from hivemind.journal.figures import Figures, FiguresFold
from hivemind.lab.foresight import draws
from hivemind.lab.foresight.draws import Job, carry_out, on_all_cores, one_by_one, part_of
from hivemind.lab.foresight.heldout import MODEL_ERROR, UNCHECKED, HeldOut, HeldOutPart, held_out
from hivemind.lab.foresight.prediction import predict
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.simulate.simulation import simulate
from hivemind.records import replace
from hivemind.scheduler.types import Price

pytestmark = pytest.mark.e2e
RUN = replace(FiguresFold().figures(), wall_s=100.0, waited_s=40.0)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Four agents, and answers that take one second to three."""
    rng = random.Random(1)
    requests = (served(1.5 * n, n + 1, f"agent-{n % 4}", takes_s=rng.uniform(1.0, 3.0)) for n in range(120))
    return recorded(tmp_path_factory.mktemp("recordings"), *requests)


def wall(run: Figures) -> float:
    return run.wall_s


@pytest.mark.slow
def test_halves_foretell_each_other(recording: Recording) -> None:
    """The recording itself stays as it was fitted, whatever was fitted to its parts."""
    before = simulate(recording)
    rows = [one.row for each in recording.trace.requests for one in each.attempts]
    found = held_out(recording)
    assert len(found.parts) == 2
    off = found.off(wall)
    assert off is not None
    assert off < 0.25
    assert simulate(recording) == before
    assert rows == [one.row for each in recording.trace.requests for one in each.attempts]


def test_too_short(recording: Recording) -> None:
    """Of a few requests no part can be spared."""
    trace = recording.trace
    kept, trace.requests = trace.requests, trace.requests[:50]
    try:
        assert held_out(recording) == UNCHECKED
    finally:
        trace.requests = kept
    assert UNCHECKED.off(wall) is None
    assert UNCHECKED.error(wall) == pytest.approx(MODEL_ERROR)


def test_errors_beyond_luck_count() -> None:
    """Draws that differ as much as they are off say nothing against the model; draws that agree do."""
    lucky = HeldOut((HeldOutPart(RUN, tuple(replace(RUN, wall_s=wall_s) for wall_s in (80.0, 130.0, 90.0, 140.0))),))
    wrong = HeldOut((HeldOutPart(RUN, tuple(replace(RUN, wall_s=wall_s) for wall_s in (129.0, 130.0, 131.0, 130.0))),))
    assert lucky.error(wall) == pytest.approx(MODEL_ERROR)
    assert wrong.error(wall) > 2 * MODEL_ERROR
    assert wrong.off(wall) == pytest.approx(0.3, abs=0.01)
    assert wrong.off(wall, least=500.0) is None


def test_parts_of_a_long_recording_are_drawn_from(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are cut once, for all draws from them, give the same figures in every process."""
    monkeypatch.setattr(draws, "WHOLE", 60)
    monkeypatch.setattr(draws, "PART", 30)
    jobs = [Job(()), *(Job((), draw) for draw in range(4))]
    parts: dict[int, Recording] = {}
    draws.add_parts(parts, recording, jobs)
    assert sorted(parts) == sorted({part_of(recording, draw) for draw in range(4)})
    assert len(parts) == 2
    alone = [carry_out(recording, job) for job in jobs]
    assert all(each.requests < alone[0].requests / 2 for each in alone[1:])
    assert one_by_one(recording, jobs, None) == on_all_cores(recording, jobs, None) == alone


def test_draws_without_changes_are_simulated_once(recording: Recording) -> None:
    """Every further question about a recording takes them from the first one, and has the same answer."""
    asked: list[Job] = []

    def runs(recording: Recording, jobs: Sequence[Job], price: Price | None) -> list[Figures]:
        asked.extend(jobs)
        return one_by_one(recording, jobs, price)

    remembered = draws.remembering(runs, {})
    one, other = (tuple(parse_changes([f"max_concurrency={most}"])) for most in (2, 3))
    first = predict(recording, one, runs=remembered, draws=2)
    assert asked == [Job(one), Job(()), Job((), 0), Job(one, 0), Job((), 1), Job(one, 1)]
    asked.clear()
    second = predict(recording, other, runs=remembered, draws=2)
    assert asked == [Job(other), Job(other, 0), Job(other, 1)]
    assert second.drawn.before == first.drawn.before
    assert second == predict(recording, other, draws=2)
