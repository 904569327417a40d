"""Work that goes on after the reply that began it, as people are told of it."""

from __future__ import annotations

from msgspec import structs
from world.kit import USED, arrived, finished, granted, only_agent, sampled, state, told

from hivemind.scheduler.events import Sampled, WorkState
from hivemind.world.gauges import WHOLE_EVERY_S, Differences
from hivemind.world.work import going_on


def test_it_is_shown_with_its_age() -> None:
    """What was sampled goes on until the next sample."""
    work = (
        WorkState("ann", "background", 2, 700.0),
        WorkState("bob", "background", 1, 7.0),
        WorkState("bob", "batch", 1, 9000.0),
    )
    world = told(structs.replace(sampled(1.0, state()), work=work))
    shown = world.snapshot(21.0).work
    assert [each.oldest_s for each in shown] == [720.0, 27.0, 9020.0]
    assert going_on(shown) == "background 3, oldest 12 min of ann; batch 1, oldest 2 h 30 min of bob"
    world.apply(sampled(22.0, state()))
    assert world.snapshot(22.0).work == ()


def test_a_journal_is_told_when_it_begins_and_ends() -> None:
    """But not each second that it has become older."""
    differences = Differences()

    def told_at(at: float, *work: WorkState) -> Sampled | None:
        return differences.of(Sampled(at, (), work=work))

    assert told_at(0.0) is not None
    assert told_at(1.0) is None
    assert told_at(2.0, WorkState("ann", "batch", 1, 0.0)) == Sampled(
        2.0, (), partial=True, work=(WorkState("ann", "batch", 1, 0.0),)
    )
    assert told_at(3.0, WorkState("ann", "batch", 1, 1.0)) is None
    assert told_at(4.0) == Sampled(4.0, (), partial=True)
    assert told_at(WHOLE_EVERY_S + 5.0) is None


def test_what_it_used_is_no_request() -> None:
    """It counts as used by its agent, and nothing else changes."""
    world = told(arrived(), granted(), finished(), finished(0, attempts=0))
    agent, totals = only_agent(world.snapshot(9.0)), world.snapshot(9.0).totals
    assert (agent.finished, totals.finished, agent.usage, totals.usage) == (1, 1, USED + USED, USED + USED)
