"""Parts of a trace: what is in them, and that they are simulated as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab.kit import LANE, failed, recorded, request, served

from hivemind.lab.fit.limiter import FittedLimit, Form
from hivemind.lab.fit.limits import limiters
from hivemind.lab.simulate.simulation import simulate
from hivemind.lab.trace.slice import sliced
from hivemind.lab.trace.steps import CommandStep
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, WindowKind


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
