"""Dollars, from the answer of an upstream to the screen."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from proxy.kit import HANGS_S, client, playing, settings_for
from proxy.wire import (
    ANSWER,
    BLOCK_START,
    BLOCK_STOP,
    HELLO,
    MESSAGE,
    MESSAGE_STOP,
    PLAIN_BODY,
    SSE,
    STREAM_BODY,
    chunked,
    event,
    http,
)
from upstream.scripted import serving

from hivemind.api_types import PlaceRelease, PlaceRequest
from hivemind.host.proxy import Kept, Proxy
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.simulation import simulate
from hivemind.prices import Prices
from hivemind.proxy.server_protocol import ClientProtocol
from hivemind.scheduler.types import Usage
from hivemind_mock.provider.serve import serving as serving_app


async def test_costs_are_known_when_a_request_ends() -> None:
    """In the totals, and of the request."""
    async with priced([ANSWER], Prices()) as (proxy, base, web):
        body = PLAIN_BODY.replace(b'"m"', b'"claude-sonnet-5"')
        assert (await web.post(f"{base}/v1/messages", content=body)).status_code == 200
        await proxy.drain(HANGS_S)
        totals = proxy.snapshot().totals
        assert (totals.dollars > 0, totals.unpriced) == (True, 0)
        assert [view.dollars for view in proxy.engine.requests(0).changed] == [totals.dollars]


@contextlib.asynccontextmanager
async def priced(
    answers: list[Any], prices: Prices, record_in: Path | None = None, **settings: Any
) -> AsyncIterator[tuple[Proxy, str, httpx.AsyncClient]]:
    """A proxy with these prices before an upstream that gives these answers, its URL, and whoever asks it."""
    async with asyncio.timeout(HANGS_S), serving(playing(answers)) as upstream:
        proxy = Proxy(settings_for(f"anthropic={upstream.url}", **settings), rng=random.Random(1), prices=prices)
        await proxy.start(Kept(journals=record_in))
        try:
            async with serving_app(proxy.app, protocol=ClientProtocol) as base, client() as web:
                yield proxy, base, web
        finally:
            await proxy.aclose()


async def costs_everywhere(tmp_path: Path, answers: list[Any], model: bytes, cost: float) -> tuple[Proxy, Recording]:
    """A whole answer and a stream of a run cost so much in its usage and its budget, on the screen, and in the
    journal's figures and a what-if of it."""
    prices = Prices()
    async with priced(answers, prices, tmp_path) as (proxy, base, web):
        assert proxy.processes.place(PlaceRequest("alice"), "you").granted
        for body in (PLAIN_BODY, STREAM_BODY):
            body = body.replace(b'"m"', model)
            assert (await web.post(f"{base}/agent/alice/v1/messages", content=body)).status_code == 200
        used = await proxy.leave(PlaceRelease("alice", 0), "you")
        spent, shown = proxy.budgets("alice").agents[0].ever, proxy.snapshot().totals
    recording = load(await asyncio.to_thread(lambda: sorted(tmp_path.iterdir())), prices.cost)
    simulated = simulate(recording, price=prices.cost).dollars
    assert [spent.dollars, used.dollars, shown.dollars] == [pytest.approx(cost)] * 3
    assert [recording.figures.dollars, simulated] == [pytest.approx(cost)] * 2
    return proxy, recording


async def test_an_hour_in_a_cache_costs_more_everywhere(tmp_path: Path) -> None:
    """Of a stream and of a whole answer, in the run's usage and its budget, on the screen, and in the journal's figures
    and a what-if of it: 2 dollars a million for input, 2.50 for five minutes in a cache, 4 for an hour, 10 for
    output."""
    usage = {
        "input_tokens": 1_000,
        "cache_creation_input_tokens": 9_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 8_000},
        "output_tokens": 100,
    }
    first = event("message_start", message={"id": "m", "usage": {**usage, "output_tokens": 1}})
    # The last event repeats the input without what it says of caches.
    last = event("message_delta", delta={}, usage={"cache_creation_input_tokens": 9_000, "output_tokens": 100})
    stream = chunked((first, BLOCK_START, HELLO, BLOCK_STOP, last, MESSAGE_STOP), SSE)
    cost = 2 * (1_000 * 2 + 1_000 * 2.5 + 8_000 * 4 + 100 * 10) / 1e6
    answers = [http(200, {"id": "m", "type": "message", "usage": usage}), stream]
    proxy, _ = await costs_everywhere(tmp_path, answers, b'"claude-sonnet-5"', cost)
    assert proxy.snapshot().totals.usage == Usage(2_000, 0, 18_000, 200, 16_000)


async def test_another_tier_of_service_has_its_price_everywhere(tmp_path: Path) -> None:
    """Of a stream and of a whole answer in fast mode, in the run's usage and its budget, on the screen, and in the
    journal's figures and a what-if of it: 8 dollars a million for input and 40 for output, twice the standard price."""
    usage = {"input_tokens": 1_000, "output_tokens": 100, "service_tier": "standard", "speed": "fast"}
    stream = chunked(
        (event("message_start", message={"id": "m", "usage": usage}), *MESSAGE[1:-2], _END, MESSAGE_STOP), SSE
    )
    cost = 2 * (1_000 * 8 + 100 * 40) / 1e6
    answers = [http(200, {"id": "m", "type": "message", "usage": usage}), stream]
    proxy, recording = await costs_everywhere(tmp_path, answers, _FAST, cost)
    assert [view.usage and view.usage.tier for view in proxy.engine.requests(0).changed] == ["fast", "fast"]
    assert [request.arrived.tier for request in recording.trace.requests] == ["fast", "fast"]


_END = event("message_delta", delta={}, usage={"output_tokens": 100})


_FAST = b'"claude-opus-5-5","speed":"fast"'


@pytest.mark.parametrize("stated", [{"speed": "fast"}, {}])
async def test_a_budget_in_dollars_stops_in_time_in_fast_mode(stated: dict[str, str]) -> None:
    """An answer costs 2.4 cents, so a budget of five cents is good for three: the third one reaches it, and no more is
    sent. A reply that doesn't state its tier, as gateways send, is taken to be at the one that was asked for."""
    answer = http(200, {"id": "m", "type": "message", "usage": {"input_tokens": 2_000, "output_tokens": 200, **stated}})
    prices, codes = Prices(), list[int]()
    budget, body = {"dollars": 0.05, "per": "ever"}, PLAIN_BODY.replace(b'"m"', _FAST)
    async with priced([answer] * 6, prices, budget=budget) as (_, base, web):
        for _ in range(6):
            codes.append((await web.post(f"{base}/agent/a/v1/messages", content=body)).status_code)
    assert codes == [200, 200, 200, 400, 400, 400]


async def test_a_run_is_told_what_it_cost() -> None:
    """When it ends."""
    async with priced([ANSWER], Prices()) as (proxy, base, web):
        assert proxy.processes.place(PlaceRequest("alice"), "you").granted
        body = PLAIN_BODY.replace(b'"m"', b'"claude-sonnet-5"')
        assert (await web.post(f"{base}/agent/alice/v1/messages", content=body)).status_code == 200
        used = await proxy.leave(PlaceRelease("alice", 0), "you")
        assert (used.tokens > 0, used.dollars > 0, used.unpriced) == (True, True, 0)
