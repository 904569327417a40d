"""Work that goes on after the reply that began it, in virtual time."""

from __future__ import annotations

from scheduler.driving import Hands, lane_config, request

from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import QueueConfig
from hivemind.scheduler.types import Usage
from hivemind.scheduler.work import KEPT, LONGEST_S, UNASKED_S, Work, Works

USED = {"": Usage(1000, 0, 0, 500)}


def test_a_slot_is_given_back_once_nobody_asks() -> None:
    """Each question keeps the work in flight; what it used is booked even if it is stated much later, and once."""
    hands = Hands(lane_config(slots=1), queue=QueueConfig(max_wait_s=1e6))
    scheduler = hands.scheduler
    first = hands.arrive()
    scheduler.begin_work(hands.now, first, "w", "background")
    hands.wait(3 * UNASKED_S)  # the reply goes on
    assert hands.lane.gate.active == 1
    scheduler.leave_work(hands.now, first)
    hands.gather()
    assert [event.ticket for event in hands.seen(ev.WorkLeft)] == [first.id]
    second = hands.arrive("b")
    hands.wait(UNASKED_S - 1)
    scheduler.ask_for_work(hands.now, "w")
    hands.wait(UNASKED_S - 1)
    assert hands.granted == []
    hands.wait(1)
    assert (hands.granted, hands.scheduler.works.state(hands.now)) == ([second], ())
    for _ in range(2):
        scheduler.end_work(hands.now, "w", request("c"), "background", dict(USED), ())
        hands.gather()
        assert scheduler.agents["a"].own.ever.tokens == 1500
    assert [event.usage for event in hands.seen(ev.Finished)] == [USED[""]]
    assert [event.ticket for event in hands.seen(ev.FirstContent)] == []


def test_a_restart_books_nothing_twice() -> None:
    """What was booked stays booked; what wasn't is booked to its agent; no slot is held for it."""
    before = Hands(lane_config(slots=2))
    for name, booked in (("w", True), ("v", False)):
        ticket = before.arrive()
        before.scheduler.begin_work(before.now, ticket, name, "background")
        before.scheduler.leave_work(before.now, ticket)
        if booked:
            before.scheduler.end_work(before.now, name, request("a"), "background", dict(USED), ("file",))
    saved = before.scheduler.take_unsaved().works
    assert not before.scheduler.take_unsaved().works
    after = Hands(lane_config(slots=1))
    after.scheduler.works.restore([(name, work) for name, work in saved.items() if work is not None])
    for name in ("w", "v", "v", "file"):
        after.scheduler.end_work(after.now, name, request("b"), "background", dict(USED), ())
    assert (after.scheduler.agents["a"].own.ever.tokens, after.lane.gate.active) == (1500, 0)
    assert "b" not in after.scheduler.agents


def test_few_are_remembered() -> None:
    """The oldest goes first; a batch that nobody asks for isn't shown for ever."""
    works = Works()
    for number in range(KEPT + 3):
        works.put(str(number), Work("a", "l", "m", "batch", float(number)))
    assert len(works.by_id) == KEPT
    assert works.find("2") is None
    assert works.take_unsaved()["2"] is None
    (state,) = works.state(KEPT + 3.0)
    assert (state.count, state.oldest_s) == (KEPT, KEPT)
    works.put("5", replace(works.by_id["5"], over=True))
    assert works.state(KEPT + 3.0)[0].count == KEPT - 1
    assert works.state(LONGEST_S + KEPT + 4) == ()
