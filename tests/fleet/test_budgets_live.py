"""Budgets over real proxies, a real store and a provider that counts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from ports import unused_port
from proxy.kit import Running, client, proxying
from redis_server import RedisServer
from store.provider import Fleet as ProviderFleet
from store.provider import providing
from store.test_kill import Program, program
from waiting import until

from hivemind.fleet.budgets import KEY
from hivemind.prices import Prices
from hivemind.scheduler.accounts import Spent
from hivemind.scheduler.commands import BeginAgent, SetBudget
from hivemind.scheduler.events import BudgetState
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving as serving_app

pytestmark = pytest.mark.e2e
OUTPUT = 60
"""Tokens of each of the mock's answers."""
BODY = (
    b'{"model": "claude-sonnet-5", "max_tokens": 64, "metadata": {"user_id": "%b"},'
    b' "messages": [{"role": "user", "content": "hello there"}]}'
)
AT_ONCE = 4
"""Requests in flight of each agent at each proxy."""


@dataclass
class Fleet:
    """Proxies that share a store, before one provider."""

    mock: MockProvider
    proxies: Sequence[Running]

    async def post(self, number: int, agent: str) -> httpx.Response:
        async with client() as web:
            url = f"{self.proxies[number].url}/agent/{agent}/v1/messages"
            return await web.post(url, content=BODY, headers={"x-api-key": "k"})

    async def use_up(self, agents: Sequence[str]) -> str:
        """Have each proxy's agent ask until it is refused; return one refusal's message."""
        messages = list[str]()

        async def ask(number: int, agent: str) -> None:
            while (answer := await self.post(number, agent)).status_code == 200:
                pass
            assert answer.status_code == 400, answer.text
            messages.append(answer.json()["error"]["message"])

        await asyncio.gather(*(ask(n, agent) for n, agent in enumerate(agents) for _ in range(AT_ONCE)))
        return messages[0]

    async def agreed(self, found: Callable[[Running], object]) -> None:
        """Wait until all proxies say the same, which is something."""

        def agree() -> bool:
            first, *others = map(found, self.proxies)
            return first is not None and all(repr(each) == repr(first) for each in others)

        await until(agree)

    def spent(self) -> Spent:
        """By all together."""
        total = Spent()
        for running in self.proxies:
            total = total.plus(running.proxy.engine.pool.ever)
        return total


def state(running: Running, agent: str | None) -> BudgetState | None:
    states = running.proxy.engine._scheduler.ledger.states()
    return next((each for each in states if each.owner == agent), None)


def limit(running: Running, agent: str | None) -> tuple[int | None, float | None] | None:
    found = state(running, agent)
    return None if found is None else (found.tokens, found.dollars)


@contextlib.asynccontextmanager
async def fleet(server: RedisServer, count: int) -> AsyncIterator[Fleet]:
    server.command("FLUSHALL")
    mock = MockProvider(MockConfig(latency=LatencyConfig(0.02, 0.01), reply=ReplyConfig(tokens=OUTPUT, spread=0)))
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(serving_app(mock))
        proxies = []
        for _ in range(count):
            running = await stack.enter_async_context(proxying(f"anthropic={url}", fleet=server.url))
            prices = Prices()
            running.proxy.engine.price_by(prices.cost)
            proxies.append(running)
        yield Fleet(mock, proxies)


@pytest.mark.parametrize(
    ("covers", "kind"),
    [
        ("agent", "tokens"),
        ("subtree", "dollars"),
        pytest.param("agent", "dollars", marks=pytest.mark.slow),
        pytest.param("pool", "tokens", marks=pytest.mark.slow),
    ],
)
async def test_a_budget_holds_for_all_machines_together(server: RedisServer, covers: str, kind: str) -> None:
    """It is overshot by no more than was in flight, wherever it was set, and refused everywhere with the sum of all."""
    async with fleet(server, 3 if covers == "pool" else 2) as machines:
        await machines.post(0, "first")
        one = machines.spent()
        before = Spent() if covers == "pool" else one
        owner = None if covers == "pool" else "alice"
        ceiling = {"tokens": 20 * one.tokens} if kind == "tokens" else {"dollars": 20 * one.dollars}
        command = SetBudget(owner, **ceiling, covers="subtree" if covers == "subtree" else None)
        machines.proxies[-1].proxy.apply(command)
        await machines.post(0, "alice")  # until then, only the proxy where it was set knows the agent
        await machines.post(1, "alice")
        await machines.agreed(lambda running: limit(running, owner))
        names = ["alice", "alice"] if covers == "agent" else ["kid", "other"]
        for running in machines.proxies if covers == "subtree" else ():
            running.proxy.apply(BeginAgent("kid", parent="alice"))
            running.proxy.apply(BeginAgent("other", parent="alice"))
        said = await machines.use_up([names[n % 2] for n in range(len(machines.proxies))])
        used = machines.spent().minus(before)
        share = used.tokens / (20 * one.tokens) if kind == "tokens" else used.dollars / (20 * one.dollars)
        assert 1 <= share < 1 + len(machines.proxies) * AT_ONCE / 20
        assert "by the whole fleet" in said
        assert machines.mock.stats.arrived * one.tokens == machines.spent().tokens


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["state lost", "store killed", "store suspended"])
async def test_a_fault_of_the_store_costs_no_budget(server: RedisServer, fault: str) -> None:
    """Requests go on within what is held, then they wait; none is lost, and nothing is overshot."""
    async with fleet(server, 2) as machines:
        await machines.post(0, "first")
        one = machines.spent()
        machines.proxies[0].proxy.apply(SetBudget("alice", 60 * one.tokens))
        for number in range(2):
            await machines.post(number, "alice")
        await machines.agreed(lambda running: limit(running, "alice"))
        using = asyncio.create_task(machines.use_up(["alice", "alice"]))
        await asyncio.sleep(0.3)
        if fault == "state lost":
            server.command("FLUSHALL")
        else:
            (server.kill if fault == "store killed" else server.suspend)()
            await asyncio.sleep(3.0)
            (server.start if fault == "store killed" else server.resume)()
        assert "by the whole fleet" in await using
        share = machines.spent().minus(one).tokens / (60 * one.tokens)
        assert 1 <= share < 1 + 2 * AT_ONCE / 60


@pytest.mark.e2e
async def test_a_proxy_that_is_killed_and_started_again_counts_once(server: RedisServer, tmp_path: Path) -> None:
    """The others go on with what it had used, and nobody counts it a second time."""
    server.command("FLUSHALL")

    async def fleets_sum(running: Program) -> int:
        books = await running.books("alice")
        return 0 if books["budget"] is None else int(books["budget"]["used_tokens"])

    async with providing() as (provider, upstream), contextlib.AsyncExitStack() as stack:
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            folder.mkdir()
        ports = [unused_port(), unused_port()]
        flags = ("--fleet", server.url, "--max-concurrency", "20")
        second = await stack.enter_async_context(program(upstream, ports[1], folders[1], *flags))
        for life in range(3):
            async with program(upstream, ports[0], folders[0], *flags) as first:
                if not life:
                    await first.do(SetBudget("alice", 100_000, per="ever"))
                agents = [ProviderFleet(running.url, ("alice",)) for running in (first, second)]
                async with agents[0].at_work(), agents[1].at_work():
                    for each in agents:
                        await each.until(10)
                await asyncio.sleep(0.5)  # until it is written down
                sums = [0, -1]
                while sums[0] != sums[1]:
                    sums = [await fleets_sum(first), await fleets_sum(second)]
                assert sums[1] <= provider.used["alice"]
                assert sums[0] >= await first.used("alice") + await second.used("alice")
                await first.kill()
            assert await fleets_sum(second) == sums[1]
        # Streams that were cut when the agents left count as far as they had come.
        assert provider.used["alice"] - sums[1] < 0.2 * sums[1]


async def test_a_key_that_is_somebody_elses_is_told_once(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """Requests under a budget wait until it is gone; others don't."""
    async with fleet(server, 1) as machines:
        server.command("DEL", KEY)
        server.command("SET", KEY, "something")
        machines.proxies[0].proxy.apply(SetBudget("alice", 1_000))
        waits = asyncio.create_task(machines.post(0, "alice"))
        assert (await machines.post(0, "bob")).status_code == 200
        await until(lambda: "the fleet's budgets" in caplog.text)
        server.command("DEL", KEY)
        assert (await waits).status_code == 200
        assert caplog.text.count("the fleet's budgets") == 1
