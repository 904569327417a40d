"""Views of a world that goes on: kept where only times changed, and the same wherever it follows a proxy."""

from __future__ import annotations

from random import Random
from unittest import mock

import pytest
from world.histories import AGENTS, LANES, History, price, randomly
from world.kit import LANE, arrived, budget, finished, granted, sampled, told

from hivemind.control import metrics
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage
from hivemind.world.agents import AgentFold
from hivemind.world.alerts import conditions
from hivemind.world.snapshot import Line
from hivemind.world.world import PENDING_MOST


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_equals_what_is_made_anew(seed: int) -> None:
    """After any events, of which some were lost, looked at soon, much later, and even at an earlier moment."""
    draw, history, read = Random(seed), History(), 0
    world, anew = told(), told()
    for turn in range(100):
        for each in (world, anew) if turn == 50 else ():
            each.price_by(price)  # for what was used before, too
        for step in randomly(draw.randrange(10**6), draw.randrange(1, 8)):
            history.step(*step)
        now, ticket = history.hands.now, draw.choice([*world._tickets, 0])
        about = ticket, world._tickets[ticket].arrived.agent if ticket else draw.choice(AGENTS), LANES[0]
        others = (
            ev.Abandoned(now, *about, in_flight=True),
            *(ev.Finished(now, 0, *about[1:], "m", 200, n, used, 1.0) for n, used in ((1, None), (0, Usage(7)))),
            ev.Sampled(now, (), (budget(None, used_tokens=draw.choice((0, 5_000))),), partial=True),
        )
        for event in (*history.hands.log[read:], *([draw.choice(others)] if draw.random() < 0.6 else [])):
            world.apply(event)
            anew.apply(event)
        read = len(history.hands.log)
        for agent in anew._agents.values():
            agent.kept = None
        at = now + draw.choice((*(0.0, 0.1, 0.4) * 6, 40.0, 700.0, 4000.0))
        assert world.snapshot(at) == anew.snapshot(at)


def test_a_view_is_made_where_something_changed() -> None:
    """Of hundreds of agents that rest or stream that of the one that asks again."""
    sent = [each for n in range(400) for each in (arrived(n, f"a{n}"), granted(n, f"a{n}"))]
    world = told(*sent, *(finished(n, f"a{n}") for n in range(300)))
    with mock.patch.object(AgentFold, "view", autospec=True, side_effect=AgentFold.view) as view:
        world.snapshot(5.0)
        world.apply(arrived(400, "a7", 6.0))
        assert all(world.snapshot(at).agents for at in (6.0, 7.0, 13.0))  # the last in another step of activity
    assert [call.args[0].name for call in view.call_args_list[400:]] == ["a7"]


def test_an_event_about_an_agent_shows() -> None:
    """One whose only request is in flight, and which has a budget."""
    about, used = (4.0, 1, "ann", LANE), (budget("ann", used_tokens=9),)
    events = ev.WorkLeft(*about), ev.PromptCached(*about, "m", "waited", 500), sampled(4.0)
    for event in (*events, ev.Sampled(4.0, (), used, partial=True)):
        world = told(arrived(), granted(), sampled(2.0, budgets=(budget("ann"),)), price=price)
        world.snapshot(4.0)
        world.apply(event)
        kept, world._agents["ann"].kept = world.snapshot(4.0), None
        assert world.snapshot(4.0) == kept


@pytest.mark.parametrize("seed", range(4))
def test_what_is_applied_later_shows_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In steps of any size, looked at now and then; also what alerts and a page with few agents are made of."""
    monkeypatch.setattr(metrics, "AGENTS_SHOWN", 2)
    draw, events = Random(seed), History().after(randomly(seed, 300))
    each, following = told(price=price), told(price=price)
    told_at: tuple[list[Line], list[Line]] = [], []
    each.on_line, following.on_line = (lines.append for lines in told_at)
    while events:
        count = draw.randrange(1, 9)
        step, events = events[:count], events[count:]
        following.follow(step)
        for event in step:
            each.apply(event)
        assert told_at[0] == told_at[1]
        if draw.random() < 0.2:
            at = step[-1].at
            assert following.snapshot(at) == each.snapshot(at)
            assert following.requests(0, at) == each.requests(0, at)
            assert following.gauges() == each.gauges()
            assert following.keep(at) == each.keep(at)
            whole, notable, few = each.snapshot(at), *(following.snapshot(at, newest=newest) for newest in (0, 2))
            assert [*conditions(notable, whole.alert_limits)] == [*conditions(whole, whole.alert_limits)]
            one, other = ([*metrics.rendered(shown, (), 1, open_metrics=False)] for shown in (few, whole))
            assert one == other


def test_a_retried_request_is_told_at_once() -> None:
    """Its line is worth one; that of an ordinary answer isn't there."""
    world = told()
    lines: list[Line] = []
    world.on_line = lines.append
    world.follow([granted(1), finished(1)])
    assert not lines
    world.follow([finished(2, attempts=2)])
    assert [line.tag for line in lines] == ["retried"]


def test_little_is_left_to_be_applied() -> None:
    """Looking at the world never takes long, however much happened since."""
    world = told()
    for number in range(10 * PENDING_MOST):
        world.follow([granted(number)])
        assert len(world._pending) < PENDING_MOST
