"""A world that follows a proxy shows the same as one that gets each event by itself."""

from __future__ import annotations

from random import Random

import pytest
from world.histories import History, price, randomly
from world.kit import finished, granted, told

from hivemind.world.alerts import conditions
from hivemind.world.snapshot import Line
from hivemind.world.world import PENDING_MOST


@pytest.mark.parametrize("seed", range(4))
def test_what_is_applied_later_shows_the_same(seed: int) -> None:
    """In steps of any size, looked at now and then."""
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
            whole, notable = each.snapshot(at), following.snapshot(at, notable=True)
            assert [*conditions(notable, whole.alert_limits)] == [*conditions(whole, whole.alert_limits)]


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
