"""The last part of a long recording, with what held on from before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab.kit import LANE, began, request, served, written

from hivemind.journal.codec import line_of
from hivemind.journal.read.several import open_journals
from hivemind.lab.simulate.recording import load
from hivemind.lab.simulate.simulation import simulate
from hivemind.lab.trace.part import last_part
from hivemind.lab.trace.steps import CommandStep
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
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
