"""A world that was written down, and gone on from; and the line of a journal that tells how it stands."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab.kit import request
from world.histories import OPS, History, Op, price, randomly
from world.kit import arrived, granted, hold, state, told

from hivemind.journal.codec import BadLine, event_of, line_of
from hivemind.journal.write import writer
from hivemind.journal.write.writer import carried_line
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage
from hivemind.world.snapshot import RequestDetail
from hivemind.world.state import Carried, WorldState
from hivemind.world.world import World

STEPS = st.tuples(st.sampled_from(OPS), st.integers(0, 999), st.integers(0, 999))


def world(*events: ev.Event) -> World:
    """With prices, after these events."""
    return told(*events, price=price)


def written(state: WorldState) -> WorldState:
    """As it comes back from a journal's line."""
    line = line_of(Carried(state.at, state))
    event = event_of(line)
    assert isinstance(event, Carried)
    return event.state


def open_ones(world: World, at: float) -> list[RequestDetail]:
    """Everything there is to say of each request that isn't over."""
    page = world.requests(0, at)
    seen = {each.ticket: each.over for each in page.changed}
    while page.changed:
        page = world.requests(page.revision, at)
        seen.update({each.ticket: each.over for each in page.changed})
    details = [world.detail(ticket, at) for ticket, over in sorted(seen.items()) if not over]
    return [detail for detail in details if detail is not None]


def assert_alike(one: World, other: World, at: float) -> None:
    """Nobody who looks sees a difference, but for requests that are over."""
    assert one.snapshot(at) == other.snapshot(at)
    assert open_ones(one, at) == open_ones(other, at)


@given(st.lists(STEPS, max_size=80), st.floats(0, 1), st.floats(0, 3))
@settings(max_examples=examples(150), deadline=None, derandomize=True)
def test_a_world_gone_on_from_is_the_same(ops: Sequence[Op], share: float, later_s: float) -> None:
    """At once, later, and after whatever happens next."""
    events = History().after(ops)
    check(events, round(share * len(events)), later_s)


def test_so_is_one_of_much_that_happened() -> None:
    """Also in the midst of a long history."""
    events = History().after(randomly(7, 900))
    for share in (0.1, 0.5, 0.9, 1):
        check(events, round(share * len(events)), 0.5)


def check(events: Sequence[ev.Event], cut: int, later_s: float) -> None:
    original = world(*events[:cut])
    at = events[cut - 1].at if cut else 0.0
    kept = original.keep(at)
    assert written(kept) == kept
    fresh = world()
    fresh.apply(Carried(at, written(kept)))
    following = events[cut].at if cut < len(events) else at + later_s
    assert_alike(original, fresh, at)
    assert_alike(original, fresh, min(at + later_s, following))
    for event in events[cut:]:
        original.apply(event)
        fresh.apply(event)
    end = max(at + later_s, events[-1].at if events else 0.0)
    assert_alike(original, fresh, end)
    assert original.keep(end) == fresh.keep(end)


def test_keeping_changes_nothing() -> None:
    """A world that was kept now and then ends as one that never was."""
    events = History().after(randomly(3, 300))
    one, other = world(), world()
    for event in events:
        one.apply(event)
        other.apply(event)
        other.keep(event.at)
    assert_alike(one, other, events[-1].at)


def test_what_is_kept_stays_as_it_was() -> None:
    """What happens afterwards doesn't reach it."""
    events = History().after(randomly(5, 600))
    original = world(*events[:300])
    at = events[299].at
    kept = original.keep(at)
    before = msgspec.json.encode(kept)
    for event in events[300:]:
        original.apply(event)
    assert msgspec.json.encode(kept) == before


def test_a_state_heals_a_world_that_missed_something() -> None:
    """Of requests whose end was lost none goes on for ever, and those that are over are remembered."""
    lost = arrived(1), granted(1), arrived(2, "ben", at=2.0)
    whole = world(*lost, ev.Finished(4.0, 1, "ann", "up:1", "m", 200, 1, Usage(1, 0, 0, 1), 4.0))
    gone_on = world(*lost, arrived(3, "cem", at=3.0), ev.Refused(3.5, 3, "cem", "up:1", "queue_full", 503))
    gone_on.apply(Carried(5.0, written(whole.keep(5.0))))
    assert gone_on.snapshot(6.0) == whole.snapshot(6.0)
    assert [(each.ticket, each.over) for each in gone_on.requests(0, 6.0).changed] == [(2, False), (3, True)]


def test_a_level_without_a_limit_comes_back_as_one() -> None:
    """In the gauges, and in what was noted of a request that it held."""
    held = world(arrived(1), arrived(2))
    sample = ev.Sampled(1.0, (state(float("inf"), upcoming=(hold(1), hold(2))),))
    held.apply(sample)
    fresh = world()
    fresh.restore(written(held.keep(1.0)))
    assert_alike(held, fresh, 1.5)
    assert "no limit" in open_ones(fresh, 1.5)[0].decisions[-1].text


@given(st.lists(STEPS, max_size=80), st.floats(0, 1), st.integers(1, 5))
@settings(
    max_examples=examples(100),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_same_line_in_pieces(
    monkeypatch: pytest.MonkeyPatch, ops: Sequence[Op], share: float, at_once: int
) -> None:
    """As it is made of the whole at once, whatever happens before it is made."""
    monkeypatch.setattr(writer, "AT_ONCE", at_once)
    events = History().after(ops)
    now = round(share * len(events))
    world = told(*events[:now], price=price)
    at = events[now - 1].at if now else 0.0
    whole = line_of(Carried(at, world.keep(at)))
    taken = world.take(at)
    for event in events[now:]:
        world.apply(event)
    turns: list[None] = []
    assert carried_line(at, taken, lambda: turns.append(None)) == whole
    pieces = [len(list(each)) for each in (taken.agent_states(), taken.rest.tickets, taken.task_records())]
    assert len(turns) == sum(-(-count // at_once) for count in pieces)


def test_a_request_in_no_state_that_there_is() -> None:
    """Such a line is bad, like any that isn't ours, so that no reader fails on it."""
    world = World(at=0.0, wall=1000.0, address="", upstreams=())
    world.apply(request(0.0, 1, "x"))
    line = line_of(Carried(1.0, world.keep(1.0)))
    assert event_of(line) == Carried(1.0, world.keep(1.0))
    with pytest.raises(BadLine, match="no state that there is"):
        event_of(line.replace(b'"state":"queued"', b'"state":"flown"'))
