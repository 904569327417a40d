"""What is concluded about how long answers take, and what isn't."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.kit import recorded, served
from lab.service_kit import run

from hivemind.errors import UsageError
from hivemind.lab.fit.service import Service
from hivemind.lab.fit.speed import ALONE, Drift
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.simulate.simulation import simulate
from hivemind.scheduler import events as ev

pytestmark = pytest.mark.e2e


def service_of(recording: Recording) -> Service:
    """Return the service of the only provider."""
    (provider,) = recording.providers.values()
    return provider.service


def batch(n: int) -> float:
    """Each other request adds an eighth to every step."""
    return 1 / (1 + 0.125 * (n - 1))


def power(n: int) -> float:
    """More requests in all, fewer each."""
    return float(n**-0.43)


def knee(n: int) -> float:
    """Four at full speed."""
    return min(1.0, 4 / n)


def slower(at: float) -> float:
    """Three times as slow in the end."""
    return 1 / (1 + at / 90)


def suddenly(at: float) -> float:
    """Half as fast after a while."""
    return 1.0 if at < 100 else 0.5


@pytest.mark.slow
def test_luck_alone_is_taken_for_luck(tmp_path: Path) -> None:
    """Where only the size matters, nothing else is concluded, whatever the seed."""
    for seed in range(3):
        found = service_of(recorded(tmp_path, run(sigma=0.4, seed=seed, turns=12)))
        assert found.plain, seed
        assert found.size.parts_s[2] > 0
        assert not found.size.kinds


@pytest.mark.slow
def test_the_size_is_found(tmp_path: Path) -> None:
    """The base and what a token costs, and nothing else."""
    found = service_of(recorded(tmp_path, run(lambda usage: 0.8 + 0.021 * usage.output_tokens)))
    assert (found.plain, found.size.parts_s[:2]) == (True, (0.0, 0.0))
    assert found.size.base_s == pytest.approx(0.8, rel=0.15)
    assert found.size.parts_s[2] == pytest.approx(0.021, rel=0.05)
    ms = 1000 * found.size.parts_s[2]
    assert list(found.sentences()) == [f"an answer takes {found.size.base_s:.2g} s + {ms:.2g} ms an output token"]


@pytest.mark.slow
@pytest.mark.parametrize("speed", [batch, power, knee])
def test_what_else_is_in_flight_is_found(speed: Callable[[int], float], tmp_path: Path) -> None:
    """By how much it slows answers down, over their whole lives."""
    found = service_of(recorded(tmp_path, run(speed=speed, think_s=15.0, sigma=0.05, turns=25)))
    assert (found.places, found.drift) == (None, Drift())
    for n in (2, 5, 8):
        assert found.speed.of(n) == pytest.approx(speed(n), rel=0.08)
    assert any(" in flight everything is " in line for line in found.sentences())


@pytest.mark.slow
def test_places_with_a_queue_are_found(tmp_path: Path) -> None:
    """The provider answers so many at once, and others wait there."""
    found = service_of(recorded(tmp_path, run(places=4)))
    assert (found.places, found.speed, found.drift) == (4, ALONE, Drift())
    assert "the provider answers about 4 at once; others wait there for their turn" in list(found.sentences())


@pytest.mark.slow
@pytest.mark.parametrize(("drift", "ratio"), [(slower, 3.0), (suddenly, 2.0)])
def test_drift_is_found(drift: Callable[[float], float], ratio: float, tmp_path: Path) -> None:
    """Slow or sudden; it isn't taken for the load."""
    recording = recorded(tmp_path, run(drift=drift, turns=30))
    found = service_of(recording)
    assert (found.places, found.speed) == (None, ALONE)
    began, ended = found.drift.speeds[0], found.drift.speeds[-1]
    assert began / ended == pytest.approx(drift(0.0) / drift(recording.trace.ends_at), rel=0.2)
    assert began / ended > 0.8 * ratio


@pytest.mark.parametrize(
    "world",
    [
        {"places": 3},
        pytest.param({"speed": power}, marks=pytest.mark.slow),
        pytest.param({"drift": slower, "speed": batch, "think_s": 6.0}, marks=pytest.mark.slow),
    ],
    ids=["places", "speed", "drift"],
)
def test_the_recording_is_reproduced(world: dict[str, object], tmp_path: Path) -> None:
    """With the recorded settings every answer ends when it did, whatever was found."""
    recording = recorded(tmp_path, run(**world))  # type: ignore[arg-type]  # the keywords of this very function
    assert not service_of(recording).plain
    ends: dict[int, float] = {}

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.Finished):
            ends[event.ticket] = event.at

    simulate(recording, on_event=on_event)
    assert [ends[n + 1] for n in range(len(ends))] == [
        pytest.approx(each.ended_at, abs=1e-5) for each in recording.trace.requests
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "world", [{"places": 4}, {"speed": power, "think_s": 15.0, "turns": 25}], ids=["places", "speed"]
)
def test_fewer_in_flight_are_predicted(world: dict[str, object], tmp_path: Path) -> None:
    """Two at a time take as long as they really do."""
    recording = recorded(tmp_path, run(**world))  # type: ignore[arg-type]  # the keywords of this very function
    really = max(each.at for each in run(**{**world, "places": 2}))  # type: ignore[arg-type]
    predicted = simulate(recording, parse_changes(["max_concurrency=2"]))
    assert really > 1.1 * recording.figures.wall_s
    assert predicted.wall_s == pytest.approx(really, rel=0.05)


def test_few_answers_prove_nothing(tmp_path: Path) -> None:
    """Then times are taken as they are."""
    found = service_of(recorded(tmp_path, run(speed=power, agents=4, turns=5)))
    assert found.plain
    assert found.size.parts_s == (0.0, 0.0, 0.0, 0.0)


def test_without_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what to install."""
    monkeypatch.setitem(sys.modules, "hivemind.lab.fit.answers", None)
    with pytest.raises(UsageError, match=r"simulating needs numpy .*: pip install 'hivemind-tui\[lab\]'"):
        recorded(tmp_path, served(0.0, 1, "a"))
