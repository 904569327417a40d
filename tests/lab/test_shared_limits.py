"""Whether several keys or models draw on one rate window, and what windows are like."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.kit import FREE, LANE, began, recorded

from hivemind.journal.codec import line_of
from hivemind.lab.fit.limiter import SlidingWindow
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.simulation import simulate
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage, WindowKind, WindowReading

OTHER = "mock:2"


def keys(path: Path, *, together: bool) -> Recording:
    """Two keys in turn, a request of each every two seconds; what remains is told with each answer."""
    events: list[ev.Event] = [ev.LaneOpened(0.0, key, "mock", "generic", FREE) for key in (LANE, OTHER)]
    used = dict.fromkeys((LANE, OTHER), 0)
    for number in range(16):
        lane, at = (LANE, OTHER)[number % 2], float(number)
        used[lane] += 1
        left = 40 - (sum(used.values()) if together else used[lane])
        told = (WindowReading(WindowKind.REQUESTS, 40, left, 60.0 - at - 0.5),)
        events += answered(at, number, lane, told)
    path.write_bytes(b"".join(map(line_of, (began(), *sorted(events, key=lambda event: event.at)))))
    return load(path)


def answered(at: float, ticket: int, lane: str, told: tuple[WindowReading, ...]) -> Iterator[ev.Event]:
    """In half a second."""
    agent = f"a{ticket}"
    yield ev.Arrived(at, ticket, agent, lane, "m", "m", Priority.NORMAL, False, 10, 10, size_chars=40)
    yield ev.Granted(at, ticket, agent, lane, 1, 0.0)
    yield ev.LimitsRead(at + 0.5, lane, "m", told)
    yield ev.FirstContent(at + 0.5, ticket, agent, lane, 0.5, 0.5)
    yield ev.Finished(at + 0.5, ticket, agent, lane, "m", 200, 1, Usage(10, 0, 0, 10), 0.5)


@pytest.mark.parametrize("together", [True, False])
def test_two_keys_with_one_allowance(tmp_path: Path, *, together: bool) -> None:
    """What remains falls by both of them, or by each one's own."""
    recording = keys(tmp_path / "run.jsonl", together=together)
    pools = {limit.pool for provider in recording.providers.values() for limit in provider.limits}
    assert pools == ({"mock m 40"} if together else {""})
    told: list[ev.Event] = []
    simulate(recording, on_event=told.append)
    last = [each.readings[0].remaining for each in told if isinstance(each, ev.LimitsRead)][-1]
    assert last == (24 if together else 32)


def refused(at: float, ticket: int, delay_s: float) -> Iterator[ev.Event]:
    """With 429, and answered a second attempt later."""
    agent = f"a{ticket}"
    yield ev.Arrived(at, ticket, agent, LANE, "m", "m", Priority.NORMAL, False, 10, 10, size_chars=40)
    yield ev.Granted(at, ticket, agent, LANE, 1, 0.0)
    yield ev.AttemptFailed(at, ticket, agent, LANE, 1, FailureKind.RATE_LIMITED, 429, "", delay_s, None, True, delay_s)
    yield ev.Granted(at + delay_s, ticket, agent, LANE, 2, 0.0)
    yield ev.Finished(at + delay_s + 0.5, ticket, agent, LANE, "m", 200, 2, Usage(10, 0, 0, 10), delay_s + 0.5)


def test_refusals_that_ask_for_a_second_are_chance(tmp_path: Path) -> None:
    """A window of a minute is over in more than that, some time or other."""
    recording = recorded(tmp_path, (event for n in range(12) for event in refused(7.0 * n + n * n % 5, n, 1.0)))
    (provider,) = recording.providers.values()
    assert (provider.limits, len(provider.failures.chance)) == ([], 12)


def test_a_bucket_of_one_is_told_from_a_window_of_a_second(tmp_path: Path) -> None:
    """Sixty a minute, enforced as one a second: nothing ever remains, and it is soon whole."""
    events: list[ev.Event] = []
    for number in range(30):
        told = (WindowReading(WindowKind.REQUESTS, 60, 0, 0.3 + number % 8 / 10),)
        events += answered(number * 1.37, number, LANE, told)
    (provider,) = recorded(tmp_path, events).providers.values()
    (limit,) = provider.limits
    assert (limit.form, limit.size, limit.span_s) == ("bucket", 1, 60.0)


def test_a_short_look_at_a_window_makes_it_no_shorter(tmp_path: Path) -> None:
    """Where no beginning was seen, it is as long as windows usually are."""
    events: list[ev.Event] = []
    for number in range(10):
        told = (WindowReading(WindowKind.REQUESTS, 500, 400 - number, 41.0 - number),)
        events += answered(float(number), number, LANE, told)
    (provider,) = recorded(tmp_path, events).providers.values()
    (limit,) = provider.limits
    assert (limit.form, limit.span_s) == ("fixed", 60.0)


def test_outside_use_of_a_key_is_charged(tmp_path: Path) -> None:
    """At the time when it was noticed, in a simulation too; what was sent and given up isn't somebody else's."""
    events: list[ev.Event] = []
    for number in range(12):
        at, others = float(number), 7 if number >= 6 else 0
        told = (WindowReading(WindowKind.REQUESTS, 40, 39 - number - others - (number > 2), 60.0 - at - 0.5),)
        events += answered(at, number, LANE, told)
    events += [
        ev.Arrived(2.6, 50, "gone", LANE, "m", "m", Priority.NORMAL, False, 10, 10, size_chars=40),
        ev.Granted(2.6, 50, "gone", LANE, 1, 0.0),
        ev.Abandoned(2.9, 50, "gone", LANE, True),
    ]
    recording = recorded(tmp_path, events)
    ((limit,),) = (provider.limits for provider in recording.providers.values())
    assert limit.others == ((6.5, 7.0),)
    said: list[ev.Event] = []
    simulate(recording, on_event=said.append)
    left = [each.readings[0].remaining for each in said if isinstance(each, ev.LimitsRead)]
    assert left == [39, 38, 37, 35, 34, 33, 25, 24, 23, 22, 21, 20]


def test_a_window_that_slides_is_told_from_a_bucket(tmp_path: Path) -> None:
    """Nothing comes back until what was used is a minute old."""
    window, ticket, events = SlidingWindow(30, 60.0), 0, list[ev.Event]()
    for step in range(700):
        at = step / 2
        if step % 140 < 100 and not window.wait_s(at, 1.0):
            window.take(at, 1.0)
            left, reset_in_s = window.reading(at)
            ticket += 1
            events += answered(at, ticket, LANE, (WindowReading(WindowKind.REQUESTS, 30, left, reset_in_s - 0.5),))
    (provider,) = recorded(tmp_path, events).providers.values()
    (limit,) = provider.limits
    assert (limit.form, limit.limit, limit.span_s) == ("sliding", 30, 60.0)
    assert next(iter(provider.sentences())) == "at most 30 requests of m are taken in any 60 s"
