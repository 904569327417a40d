"""Budgets under concurrency, through official SDKs and a mock provider that counts what it gave."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import anthropic
import httpx
import pytest
from proxy.kit import Running, client, proxying
from proxy.sdk import sdk_http

from hivemind.host.proxy import Proxy
from hivemind.prices import Prices
from hivemind.records import replace
from hivemind.scheduler.commands import SetBudget
from hivemind.text.amounts import HEADER
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving as serving_app

OUTPUT = 60
"""Tokens of each of the mock's answers."""
BODY = b'{"model": "claude-sonnet-5", "max_tokens": 64, "messages": [{"role": "user", "content": "hello there"}]}'


@contextlib.asynccontextmanager
async def mocked() -> AsyncIterator[tuple[MockProvider, Running]]:
    """A provider that takes a moment for each token, and the proxy before it."""
    latency, reply = LatencyConfig(0.02, 0.01, token_s=0.001), ReplyConfig(tokens=OUTPUT, spread=0)
    mock = MockProvider(MockConfig(latency=latency, reply=reply))
    async with serving_app(mock) as url, proxying(f"anthropic={url}") as running:
        yield mock, running


async def stream(running: Running, agent: str) -> int | None:
    """Tokens of one whole streamed answer; None where it was refused for the budget's sake."""
    async with anthropic.AsyncAnthropic(
        api_key="k", base_url=f"{running.url}/agent/{agent}", timeout=20, max_retries=2, http_client=sdk_http()
    ) as sdk:
        try:
            async with sdk.messages.stream(
                model="claude-sonnet-5", max_tokens=64, messages=[{"role": "user", "content": "hello there"}]
            ) as stream:
                usage = (await stream.get_final_message()).usage
                return int(usage.input_tokens + usage.output_tokens)
        except anthropic.BadRequestError:
            return None


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1, 50], ids=["one agent", "fifty agents on a pool"])
async def test_fifty_streams_on_a_budget_for_ten(spread: int) -> None:
    """Overshot by no more than was in flight when it ran out; whoever is refused asked once, and from then on nothing
    of theirs goes upstream."""
    async with mocked() as (mock, running):
        one = await stream(running, "first")
        assert one is not None
        budget = 10 * one
        if spread == 1:
            running.proxy.apply(SetBudget("agent-0", budget))
        else:
            running.proxy.apply(SetBudget(None, budget + one))
        answers = await asyncio.gather(*(stream(running, f"agent-{n % spread}") for n in range(50)))
        given = [tokens for tokens in answers if tokens is not None]
        pool = running.proxy.engine.pool.ever.tokens - one
        assert sum(given) == pool
        assert budget <= pool < budget + 10 * one
        assert len(given) + answers.count(None) == 50
        requests, upstream = running.snapshot().totals.requests, mock.stats.arrived
        assert requests == 51
        assert upstream == 1 + len(given)
        assert await stream(running, "agent-0") is None
        assert (running.snapshot().totals.requests, mock.stats.arrived) == (52, upstream)


async def post(web: httpx.AsyncClient, running: Running) -> httpx.Response:
    return await web.post(f"{running.url}/agent/alice/v1/messages", content=BODY, headers={"x-api-key": "k"})


async def test_an_agent_is_warned_in_a_header() -> None:
    """From 85 % on, on answers and on refusals; other agents hear nothing of it."""
    async with mocked() as (_, running), client() as web:
        usage = (await post(web, running)).json()["usage"]
        one = usage["input_tokens"] + usage["output_tokens"]
        running.proxy.apply(SetBudget("alice", 3 * one))
        second = await post(web, running)
        assert HEADER.decode() not in second.headers
        third = await post(web, running)
        expected = f'used=1.000, tokens={3 * one}, tokens-limit={3 * one}, per=run, covers=agent, owner="alice"'
        assert third.headers[HEADER.decode()] == expected
        refused = await post(web, running)
        assert (refused.status_code, refused.headers["x-should-retry"]) == (400, "false")
        assert refused.headers[HEADER.decode()] == expected
        running.proxy.apply(SetBudget("alice", 3 * one + one // 4))
        warned = await post(web, running)
        assert warned.status_code == 200
        assert warned.headers[HEADER.decode()].startswith("used=1.2")  # it was granted while some was left


async def test_a_budget_in_dollars_has_prices_from_the_first_request_on() -> None:
    """Nothing is used that nobody could count."""
    async with mocked() as (_, running):
        settings = running.proxy.settings
        settings = replace(settings, budget=replace(settings.budget, dollars=0.0001))
        proxy = Proxy(settings, prices=Prices())
        await proxy.start()
        try:
            async with serving_app(proxy.app) as url, client() as web:
                first = await web.post(f"{url}/agent/alice/v1/messages", content=BODY)
                second = await web.post(f"{url}/agent/alice/v1/messages", content=BODY)
                assert (first.status_code, second.status_code) == (200, 400)
                assert "of $0.0001 used this run" in second.json()["error"]["message"]
                # After a 400 it would ask again, up to five times, without some of its features.
                told = {"user-agent": "claude-cli/2.1.332 (external, sdk-cli)"}
                third = await web.post(f"{url}/agent/alice/v1/messages", content=BODY, headers=told)
                assert (third.status_code, third.json()["error"]["type"]) == (402, "billing_error")
                assert third.headers["x-should-retry"] == "false"
        finally:
            await proxy.aclose()
