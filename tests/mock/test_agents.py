"""Mock agents: they work turn by turn and die at their first error."""

from __future__ import annotations

import asyncio

import pytest

from hivemind.lab.simulate.clock import run_virtual
from hivemind_mock.agents.agent import Agent, AgentConfig, AgentResult
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.inprocess import InProcessTransport

CALM = MockConfig(latency=LatencyConfig(0.1, 0.0), reply=ReplyConfig(tokens=150, spread=0))


def live(agent: AgentConfig, provider: MockConfig) -> tuple[AgentResult, MockProvider, float]:
    """One agent's life, the provider it met, and how long it took."""

    async def main() -> tuple[AgentResult, MockProvider, float]:
        loop = asyncio.get_running_loop()
        mock = MockProvider(provider, clock=loop.time, wall=loop.time)
        result = await Agent(agent, InProcessTransport(mock), "http://mock").run()
        return result, mock, loop.time()

    return run_virtual(main())


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_finishes_its_turns(stream: bool) -> None:
    """All turns are asked one after the other, with a pause to think, and every token is counted."""
    result, mock, took_s = live(AgentConfig("ada", turns=8, stream=stream), CALM)
    assert result == AgentResult("ada", True, 8, 8 * (60 + 150), "")
    assert mock.stats.arrived == 8
    assert took_s == pytest.approx(8 * 0.1 + 7 * 0.05)


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        (FaultConfig(bad_gateway=1.0), "status 502"),
        (FaultConfig(overloaded=1.0), "status 529"),
        (FaultConfig(reset=1.0), "ReadError: connection reset by peer"),
        (FaultConfig(reset_mid=1.0), "ReadError: connection reset by peer"),
        (FaultConfig(error_mid=1.0), "error event: 529 overloaded_error: Overloaded"),
        (FaultConfig(truncated=1.0), "truncated"),
    ],
)
def test_the_first_error_is_the_last(faults: FaultConfig, error: str) -> None:
    """An agent never tries again, whatever the error is."""
    result, mock, _ = live(AgentConfig("bob", turns=8, stream=True), MockConfig(faults=faults))
    assert (result.alive, result.turns, result.error) == (False, 0, error)
    assert mock.stats.arrived == 1


def test_the_dead_leave_their_tokens_behind() -> None:
    """Tokens of the turns before the death are told, so that waste can be added up."""
    limits = LimitConfig(rpm=3)
    result, _, _ = live(AgentConfig("cy", turns=8), MockConfig(limits=limits, reply=ReplyConfig(150, 0)))
    assert result == AgentResult("cy", False, 3, 3 * 210, "status 429")
