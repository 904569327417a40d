"""What a fleet of the official SDKs costs through HiveMind, whose order keeps prompts in the provider's cache.

Mock provider and proxy share a loop on which an hour takes a minute; the SDKs run in a process of their own, and their
agents think as much faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from functools import partial
from pathlib import Path

import pytest
from clients.installed import missing, python_with
from proxy.kit import settings_for

from benchmarks.planned.clock import FastLoop
from benchmarks.planned.provider import PlannedProvider
from hivemind.host.proxy import Kept, Proxy
from hivemind.prices import Prices
from hivemind.proxy.server_protocol import ClientProtocol
from hivemind.scheduler.admission import queue, warm_first
from hivemind.world.snapshot import Totals
from hivemind_mock.provider.config import LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving

pytestmark = pytest.mark.clients
SPEED, AGENTS, REQUESTS = 60.0, 12, 5
PROGRAM = Path(__file__).with_name("calls") / "caches.py"
LIMITS = LimitConfig(rpm=2, window="bucket", burst=1)
SDKS = ("anthropic", "openai")


async def fleet(sdk: str) -> tuple[Totals, dict[str, dict[str, float]], list[int]]:
    """Return what the proxy and the provider say of a run, and the SDK."""
    loop = asyncio.get_running_loop()
    offset_s = time.time() - loop.time()

    def wall() -> float:
        return offset_s + loop.time()

    replies, latency = ReplyConfig(cache=True), LatencyConfig(base_s=1.0, jitter_s=0.0, input_token_s=2e-5)
    mock = PlannedProvider(MockConfig(limits=LIMITS, latency=latency, reply=replies), clock=loop.time, wall=wall)
    prices = Prices()
    async with serving(mock) as upstream, contextlib.AsyncExitStack() as stack:
        proxy = Proxy(settings_for(f"{sdk}={upstream}", profile=sdk), wall=wall, prices=prices)
        await proxy.start(Kept())
        stack.push_async_callback(proxy.aclose)
        url = await stack.enter_async_context(serving(proxy.app, protocol=ClientProtocol))
        command = [python_with(sdk), str(PROGRAM), sdk, url, str(AGENTS), str(REQUESTS), str(SPEED)]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        assert process.returncode == 0
        return proxy.snapshot().totals, mock.tally.account(), json.loads(out)


def both() -> dict[str, tuple[Totals, dict[str, dict[str, float]], list[int]]]:
    """Run a fleet of each SDK, at once."""

    async def run() -> dict[str, tuple[Totals, dict[str, dict[str, float]], list[int]]]:
        return dict(zip(SDKS, await asyncio.gather(*map(fleet, SDKS)), strict=True))

    with asyncio.Runner(loop_factory=partial(FastLoop, SPEED)) as runner:
        return runner.run(run())


def test_the_order_saves_dollars_and_the_ledger_is_the_providers_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the order and without it; what was spent and lost agrees to the cent, and tokens with what the SDK saw."""
    for sdk in SDKS:
        if why := missing(python_with(sdk)):
            pytest.skip(why)
    with_order = both()
    for module in (queue, warm_first):
        monkeypatch.setattr(module, "WORTH", math.inf)
    without = both()
    for run in (with_order, without):
        for totals, account, seen in run.values():
            sums = {part: sum(account[f"agent-{n}"][part] for n in range(AGENTS)) for part in ("dollars", "lost")}
            assert totals.dollars == pytest.approx(sums["dollars"], abs=0.005)
            assert totals.expired_waiting + totals.expired_thinking == pytest.approx(sums["lost"], abs=0.005)
            usage = totals.usage
            assert [usage.cache_read_tokens, usage.input_tokens + usage.cache_write_tokens] == seen
    for sdk in SDKS:
        assert with_order[sdk][0].dollars < 0.75 * without[sdk][0].dollars
