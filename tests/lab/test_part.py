"""The last part of a long recording, and other parts of a trace: what is in them and held on, simulated as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.kit import LANE, began, failed, recorded, request, served, written

from hivemind.journal.codec import line_of
from hivemind.journal.read.several import open_journals
from hivemind.lab.fit.limiter import FittedLimit, Form
from hivemind.lab.fit.limits import limiters
from hivemind.lab.simulate.recording import load
from hivemind.lab.simulate.simulation import simulate
from hivemind.lab.trace.part import last_part, sliced
from hivemind.lab.trace.steps import CommandStep
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import FailureKind, WindowKind
from hivemind.world.state import Carried


def night(requests: int) -> Iterator[ev.Event]:
    """An agent that works for ever, and one whose only request takes all night."""
    yield request(0.5, 1, "slow")
    yield ev.Granted(0.5, 1, "slow", LANE, 1, 0.0)
    for number in range(requests):
        yield from served(1.0 + number * 3.0, number + 10, "steady", takes_s=2.0)
    end = 1.0 + requests * 3.0
    yield ev.FirstContent(end, 1, "slow", LANE, end - 0.5)
    yield ev.Finished(end, 1, "slow", LANE, "m", 200, 1, None, end - 0.5)


def test_a_long_recording_is_cut_and_says_so(tmp_path: Path) -> None:
    """Of many requests the last ones are taken, and those that were open when they began."""
    path = written(tmp_path / "night.jsonl", night(40))
    whole, part = load(path), load(path, most=10)
    assert len(whole.trace.requests) == 41
    assert whole.figures.requests == 41
    assert not any("only its last" in line for line in whole.warnings)
    assert sorted(each.arrived.agent for each in part.trace.requests) == ["slow", *["steady"] * 10]
    assert "only its last 30 s are simulated: 11 of 41 requests" in part.warnings


def test_the_part_is_simulated_as_it_was(tmp_path: Path) -> None:
    """With the recorded settings its figures come out as recorded, what was open before included."""
    part = load(written(tmp_path / "night.jsonl", night(40)), most=10)
    assert simulate(part) == part.figures
    assert part.figures.requests == 11
    assert part.trace.began.at == 1.0 + 30 * 3.0
    assert part.trace.began.wall == 1000.0 + 91.0


def test_commands_from_before_still_hold(tmp_path: Path) -> None:
    """The last value of a knob, and an agent's pause, hold in the part; what was taken back doesn't."""
    commands = [
        ev.Commanded(2.0, "you", "Tune", {"knob": "max_concurrency", "value": 3.0}),
        ev.Commanded(2.5, "you", "Tune", {"knob": "max_concurrency", "value": 2.0}),
        ev.Commanded(2.6, "you", "PauseAgent", {"agent": "gone", "paused": True}),
        ev.Commanded(2.7, "you", "SubmitTasks", {}),
    ]
    events = sorted([*night(20), *commands], key=lambda event: event.at)
    path = tmp_path / "night.jsonl"
    lane = ev.LaneOpened(0.0, LANE, "mock", "generic", LaneConfig("mock", "generic", max_concurrency=9, rpm=0, tpm=0))
    path.write_bytes(b"".join(map(line_of, (began(), lane, *events))))
    part = load(path, most=5)
    found = [(step.name, step.arguments) for _, step in part.trace.start if isinstance(step, CommandStep)]
    assert found == [
        ("Tune", {"knob": "max_concurrency", "value": 2.0}),
        ("PauseAgent", {"agent": "gone", "paused": True}),
    ]
    assert part.lanes[LANE].max_concurrency == 9


def test_requests_of_several_proxies_stay_their_own(tmp_path: Path) -> None:
    """What was open at each of several proxies is carried for that proxy."""
    paths = [written(tmp_path / f"{name}.jsonl", night(12)) for name in ("one", "two")]
    # Two journals of the same name would be one: each has its own first line.
    for number, path in enumerate(paths):
        text = path.read_bytes().replace(b'"journal":"by-hand"', b'"journal":"by-hand-%d"' % number)
        path.write_bytes(text)
    part = last_part(open_journals(paths), frozenset(), 6)
    carried = [(proxy, event) for proxy, event in part.events if type(event) is Carried]
    assert part.requests == 26
    assert [proxy for proxy, _ in carried] == [0, 1]
    assert load(paths, most=6).figures.requests >= 8


def test_a_part_is_simulated_as_it_was(tmp_path: Path) -> None:
    """Requests of the part come when they did, those that followed from one outside it, too."""
    steady = (served(1.0 + number * 3.0, number + 1, "ann", takes_s=2.0) for number in range(10))
    other = (served(2.5 + number * 4.0, number + 50, "bob", takes_s=1.0) for number in range(5))
    recording = recorded(tmp_path, *steady, *other)
    part = sliced(recording.trace, 10.0, 22.0)
    assert [each.at for each in part.requests] == [10.0, 10.5, 13.0, 14.5, 16.0, 18.5, 19.0]
    assert (part.began.at, part.began.wall, part.ends_at) == (10.0, 1010.0, 22.0)
    ends: list[float] = []

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.Finished):
            ends.append(event.at)

    figures = simulate(replace(recording, trace=part), on_event=on_event)
    assert figures.requests == 7
    assert ends == [11.5, 12.0, 15.0, 15.5, 18.0, 19.5, 21.0]
    assert simulate(recording).requests == 15  # the whole is as it was


def test_links_across_the_border_are_cut(tmp_path: Path) -> None:
    """What waits for two, one of them outside, waits for the other; a retry of something outside is none."""
    lost = [
        request(1.0, 1, "ann"),
        ev.Granted(1.0, 1, "ann", "mock:1", 1, 0.0),
        failed(2.0, 1, "ann", FailureKind.SERVER_ERROR),
    ]
    recording = recorded(tmp_path, lost, served(6.0, 2, "ann"), served(8.0, 3, "ann"))
    (again, last) = sliced(recording.trace, 5.0, 20.0).requests
    assert (again.repeats, again.awaits, last.awaits) == (None, 1, 1)
    assert recording.trace.requests[1].repeats is recording.trace.requests[0]


def test_commands_from_before_hold(tmp_path: Path) -> None:
    """A knob that was turned before the part is turned at its beginning; what started a process is left out."""
    commands = [
        ev.Commanded(0.5, "you", "Tune", {"knob": "max_concurrency", "value": 3.0}),
        ev.Commanded(0.6, "you", "BeginAgent", {"agent": "ann"}),
    ]
    recording = recorded(tmp_path, commands, *(served(number * 3.0 + 1, number + 1, "ann") for number in range(5)))
    part = sliced(recording.trace, 6.0, 20.0)
    found = [(delay_s, step.name) for delay_s, step in part.start if isinstance(step, CommandStep)]
    assert found == [(0.0, "Tune")]


@pytest.mark.parametrize("form", ["fixed", "sliding", "bucket"])
def test_windows_know_what_came_before_a_part(tmp_path: Path, form: Form) -> None:
    """Requests shortly before it still count, those of the window before don't."""
    recording = recorded(
        tmp_path, *(served(each, number + 1, "ann") for number, each in enumerate((1.0, 70.0, 80.0, 90.0)))
    )
    limit = FittedLimit("m", WindowKind.REQUESTS, 6, form, 60.0, spent=4.0, spent_for_s=30.0)
    lanes = {LANE: recording.providers[LANE].lane}

    def left(began_at: float) -> int:
        part = sliced(recording.trace, began_at, 100.0)
        return limiters(part, lanes, {LANE: [limit]})[LANE].left(began_at, "m")[WindowKind.REQUESTS]

    assert left(85.0) == (5 if form == "bucket" else 4)
    assert left(69.0) == 6
