"""Dollars in the world."""

from __future__ import annotations

import pytest
from world.kit import LANE, USED, abandoned, arrived, failed, finished, granted, only_agent, sampled, state, told

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Price, Usage
from hivemind.world.agents import PENDING_KEPT, AgentFold, Costs
from hivemind.world.merge import merged_models
from hivemind.world.snapshot import MODELS_KEPT
from hivemind.world.state import Counts

OPENED = ev.LaneOpened(0.0, LANE, "up", "anthropic")


def dollar_a_token(provider: str, model: str, usage: Usage) -> float | None:
    """For Anthropic's model; nobody knows what others cost."""
    return float(usage.total) if (provider, model) == ("anthropic", "model") else None


def test_what_was_used_has_a_cost() -> None:
    """By agent and over all, answered or wasted; a request has that of all its attempts once it is over."""
    world = told(OPENED, arrived(), granted(), failed(1.0, usage=Usage(1, 0, 0, 2)), price=dollar_a_token)
    (view,) = world.requests(0, 3.0).changed
    assert view.dollars is None
    for event in (granted(attempt=2), finished(attempts=2), arrived(2), granted(2), abandoned(2, usage=Usage(5))):
        world.apply(event)
    snapshot = world.snapshot(9.0)
    assert (snapshot.totals.dollars, snapshot.totals.unpriced) == (3 + USED.total + 5, 0)
    assert (only_agent(snapshot).dollars, only_agent(snapshot).unpriced) == (3 + USED.total + 5, 0)
    assert [view.dollars for view in world.requests(0, 9.0).changed] == [3 + USED.total, 5]


@pytest.mark.parametrize("end", [finished(usage=None), abandoned(usage=None), failed(None)])
def test_a_request_without_usage_has_no_cost(end: ev.Event) -> None:
    """Nobody said what it used."""
    (view,) = told(OPENED, arrived(), granted(), end, price=dollar_a_token).requests(0, 9.0).changed
    assert (view.usage, view.dollars) == (None, None)


def test_tokens_whose_price_is_not_known_are_counted() -> None:
    """The provider of a lane comes from its opening, or from a sample where that was missed."""
    world = told(arrived(), granted(), finished(), price=dollar_a_token)
    assert (world.snapshot(6.0).totals.dollars, world.snapshot(6.0).totals.unpriced) == (0.0, USED.total)
    assert only_agent(world.snapshot(6.0)).unpriced == USED.total
    assert world.requests(0, 6.0).changed[0].dollars is None
    for event in (sampled(7.0, state(provider="anthropic")), arrived(2), granted(2), finished(2)):
        world.apply(event)
    assert (world.snapshot(9.0).totals.dollars, world.snapshot(9.0).totals.unpriced) == (USED.total, USED.total)


def test_what_was_used_before_prices_were_known_is_priced_when_they_are() -> None:
    """Until then it counts as unpriced; requests that are over show their cost to those who had asked already."""
    world = told(OPENED, arrived(), granted(), finished())
    known = world.requests(0, 6.0)
    assert (known.changed[0].dollars, world.snapshot(6.0).totals.unpriced) == (None, USED.total)
    world.price_by(dollar_a_token)
    assert [view.dollars for view in world.requests(known.revision, 6.0).changed] == [USED.total]
    totals = world.snapshot(6.0).totals
    assert (totals.dollars, totals.unpriced) == (USED.total, 0)


def test_a_sample_settles_too() -> None:
    """A proxy that nobody looks at doesn't pile up what it has to price."""
    asked: list[Usage] = []

    def price(provider: str, model: str, usage: Usage) -> float:
        asked.append(usage)
        return 1.0

    world = told(OPENED, arrived(), granted(), finished(), price=price)
    assert asked == []
    world.apply(sampled(6.0, state()))
    assert asked == [USED]


def test_without_prices_the_past_is_bounded() -> None:
    """What is beyond stays unpriced, for good."""
    counts, agent = Counts(), AgentFold(name="ann")
    costs = Costs(counts, lambda *_: None)
    for _ in range(PENDING_KEPT + 5):
        costs.note(0.0, agent, "anthropic", "model", Usage(1))
        costs.settle(None)
    price: Price = dollar_a_token
    costs.settle(price)
    assert (counts.dollars, counts.priced, agent.dollars, agent.priced) == (PENDING_KEPT,) * 4


def test_what_was_used_is_known_by_model() -> None:
    """Failed attempts included; tokens without a price are counted, and too many models are kept together."""
    world = told(OPENED, arrived(), granted(), failed(1.0, usage=Usage(1, 0, 0, 2)), price=dollar_a_token)
    for event in (granted(attempt=2), finished(attempts=2)):
        world.apply(event)
    (model,) = world.snapshot(9.0).models
    assert (model.provider, model.model, model.usage) == ("anthropic", "model", Usage(1, 0, 0, 2) + USED)
    assert (model.dollars, model.unpriced) == (3 + USED.total, 0)
    costs = Costs(Counts(), lambda *_: None)
    for number in range(MODELS_KEPT + 5):
        costs.note(0.0, AgentFold(name="ann"), "anthropic", f"m{number}", Usage(number))
    costs.settle(dollar_a_token)
    others = costs.models[-1]
    assert (len(costs.models), others.model, others.usage) == (MODELS_KEPT + 1, "", Usage(5 * MODELS_KEPT + 10))
    assert others.unpriced == others.usage.total
    assert merged_models([costs.models, costs.models])[-1].usage == others.usage + others.usage


def test_what_caches_lost_and_the_order_saved_has_a_cost() -> None:
    """By agent and in all: what writing costs more than reading, where a price is known, even if that comes later."""
    told_of = [
        ev.PromptCached(1.0, 1, "ann", LANE, "m", "waited", 1000),
        ev.PromptCached(1.0, 1, "ann", LANE, "m", "thought", 1000),
        ev.PromptCached(1.0, 1, "ann", LANE, "m", "order", 2000),
        ev.PromptCached(1.0, 1, "ann", LANE, "unknown", "order", 1000),
    ]
    world = told(OPENED, arrived(), *told_of)
    assert world.snapshot(1.0).totals.order_saved == 0

    def price(provider: str, model: str, usage: Usage) -> float | None:
        return None if model == "unknown" else 2.0 * usage.cache_write_tokens + usage.cache_read_tokens

    world.price_by(price)
    snapshot = world.snapshot(2.0)
    for view in (snapshot.totals, only_agent(snapshot)):
        assert (view.expired_waiting, view.expired_thinking, view.order_saved) == (1000, 1000, 2000)
