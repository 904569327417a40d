"""Compare agents on the official Anthropic SDK direct, through LiteLLM and through HiveMind, over real sockets.

Every agent works through its turns with the SDK's default retries and dies at the first error that the SDK raises.
LiteLLM runs if its program is found (`--litellm PROGRAM`, else the one that `LITELLM` names, else `litellm` on PATH),
with the same rate limit that the provider has and five retries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass

import anthropic
import httpx

from benchmarks.perf import servers
from hivemind.errors import HiveMindError
from hivemind.host.loop import run_loop
from hivemind_mock.bench.main import JsonOutput, format_table, show_progress
from hivemind_mock.bench.runs import on_sockets
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import SCENARIOS, Scenario
from hivemind_mock.provider.serve import serving

_SCENARIOS = ("micro-10", "replay-11")
_MODEL = "claude-sonnet-5"
_THINK_S = 0.05
_LITELLM = """\
model_list:
  - model_name: {model}
    litellm_params: {{model: anthropic/{model}, api_base: {url}, api_key: sk-mock, rpm: {rpm}}}
router_settings: {{num_retries: 5, enable_pre_call_checks: true}}
general_settings: {{master_key: sk-mock, dangerously_permit_weak_or_unset_master_key: true}}
"""

BaseUrl = Callable[[str], str]
"""From an agent's name to its base URL."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one scenario through one gateway."""

    scenario: str
    gateway: str
    agents: int
    finished: int
    """Agents that completed every turn."""
    answered: int
    """Turns answered, of `agents` times the scenario's turns."""
    attempts: int
    """Requests that reached the provider."""
    wasted_tokens: int
    """Used by agents that died."""
    wall_s: float


async def measure(names: Sequence[str], litellm: str | None, seed: int) -> list[Result]:
    """Run each scenario through each gateway, one after another.

    Raises: PerfError: one couldn't be started.
    """
    results = []
    for name in names:
        scenario = SCENARIOS[name]
        gateways: dict[str, Callable[[str], AbstractAsyncContextManager[BaseUrl]]] = {"direct": _direct}
        if litellm is not None:
            gateways["litellm"] = lambda url, scenario=scenario: _litellm(litellm, url, scenario)  # type: ignore[misc]
        gateways["hivemind"] = lambda url: _hivemind(url, seed)
        for gateway, before in gateways.items():
            show_progress(f"{name} through {gateway}")
            mock = MockProvider(scenario.provider(seed))
            async with serving(mock) as url, before(url) as base_url:
                results.append(await _run(scenario, gateway, mock, base_url))
    return results


async def _run(scenario: Scenario, gateway: str, mock: MockProvider, base_url: BaseUrl) -> Result:
    began = time.monotonic()
    names = [f"agent-{number:02}" for number in range(1, scenario.agents + 1)]
    turns = await asyncio.gather(
        *(_agent(base_url(name), scenario.turns, number % 2 == 0) for number, name in enumerate(names))
    )
    return Result(
        scenario.name,
        gateway,
        scenario.agents,
        sum(done == scenario.turns for done, _ in turns),
        sum(done for done, _ in turns),
        mock.stats.arrived,
        sum(tokens for done, tokens in turns if done < scenario.turns),
        time.monotonic() - began,
    )


async def _agent(base_url: str, turns: int, stream: bool) -> tuple[int, int]:
    """Return the number of turns answered before the first error, and the tokens they used."""
    tokens = 0
    async with anthropic.AsyncAnthropic(base_url=base_url, api_key="sk-mock", timeout=900.0) as client:
        for turn in range(turns):
            try:
                tokens += await _ask(client, stream)
            except (anthropic.AnthropicError, httpx.HTTPError):
                return turn, tokens
            await asyncio.sleep(_THINK_S)
    return turns, tokens


async def _ask(client: anthropic.AsyncAnthropic, stream: bool) -> int:
    messages: list[anthropic.types.MessageParam] = [{"role": "user", "content": "Explain why the test fails. " * 8}]
    if not stream:
        reply = await client.messages.create(model=_MODEL, max_tokens=1024, messages=messages)
        return int(reply.usage.input_tokens + reply.usage.output_tokens)
    async with client.messages.stream(model=_MODEL, max_tokens=1024, messages=messages) as events:
        final = await events.get_final_message()
    return int(final.usage.input_tokens + final.usage.output_tokens)


@asynccontextmanager
async def _direct(url: str) -> AsyncIterator[BaseUrl]:
    yield lambda name: url


@asynccontextmanager
async def _hivemind(url: str, seed: int) -> AsyncIterator[BaseUrl]:
    async with on_sockets(url, seed, {}) as served:
        yield lambda name: f"{served}/agent/{name}"


@asynccontextmanager
async def _litellm(program: str, url: str, scenario: Scenario) -> AsyncIterator[BaseUrl]:
    config = _LITELLM.format(model=_MODEL, url=url, rpm=scenario.rpm)
    async with servers.litellm_with(program, config) as target:
        yield lambda name: target.url


def _table(results: Sequence[Result]) -> str:
    head = ("scenario", "gateway", "agents", "finished", "answered", "attempts", "wasted tokens", "wall s")
    rows = [
        (
            *(one.scenario, one.gateway, f"{one.agents}", f"{one.finished}", f"{one.answered}", f"{one.attempts}"),
            *(f"{one.wasted_tokens:,}", f"{one.wall_s:.1f}"),
        )
        for one in results
    ]
    return format_table([head, *rows], left=2)


def main() -> int:
    """Measure and print. An agent that died is a result, so the exit code is 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.gateways", description=__doc__)
    parser.add_argument(
        "scenarios", nargs="*", default=_SCENARIOS, metavar="SCENARIO", help=f"of {', '.join(SCENARIOS)}"
    )
    parser.add_argument("--litellm", metavar="PROGRAM", default=servers.find_litellm(), help="its command-line program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write the results to a file; - for standard output")
    namespace = parser.parse_args()
    if unknown := [name for name in namespace.scenarios if name not in SCENARIOS]:
        parser.error(f"{unknown[0]}: no such scenario; there are {', '.join(SCENARIOS)}")
    try:
        target = JsonOutput(namespace.json)
        results = run_loop(measure(namespace.scenarios, namespace.litellm, namespace.seed))
    except HiveMindError as error:
        print(f"benchmarks.gateways: {error}", file=sys.stderr)
        return 2
    show_progress("")
    target.write(json.dumps([asdict(one) for one in results], indent=2).encode() + b"\n")
    if not target.replaces_tables:
        print(_table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
