"""`python -m benchmarks.fairness`: how HiveMind shares slots among agents that saturate it, in virtual time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from benchmarks.figures import Figure, run
from benchmarks.perf.load import percentile
from hivemind.lab.simulate.clock import run_virtual
from hivemind.records import replace
from hivemind.scheduler.config import QueueConfig
from hivemind_mock.agents.agent import Agent, AgentConfig
from hivemind_mock.bench.main import show_progress
from hivemind_mock.bench.runs import in_process
from hivemind_mock.provider.config import LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.inprocess import provider_in_loop_time

_SLOTS = 4
_SLOT_S = 0.5
"""How long an answer takes, each as long as any other."""
_LASTS_S = 240.0
_ANSWER = 20
_PROMPT = 1_000
_OUTPUT_WEIGHT = 5
_WINDOW_S = 60.0
_JAIN = 0.95
_MANY = 50


@dataclass(frozen=True, slots=True)
class Crowd:
    """Identical agents, each of which always has `requests` requests open."""

    name: str
    agents: int
    requests: int = 3
    prompt_tokens: int = _PROMPT
    priority: str = "normal"


@dataclass(frozen=True, slots=True)
class Served:
    """An answered request."""

    agent: str
    at: float
    """Seconds from the beginning to the answer."""
    waited_s: float
    weighted: float
    """Tokens, in units of one input token."""


_LIGHT = Crowd("light", 9, requests=8)
_HEAVY = Crowd("heavy", 1, requests=8, prompt_tokens=20 * _PROMPT)
SET_UPS: tuple[tuple[str, int, tuple[Crowd, ...]], ...] = (
    ("it starts first", _SLOTS, (_HEAVY, _LIGHT)),
    ("it starts last", _SLOTS, (_LIGHT, _HEAVY)),
    ("10 slots", 10, (_HEAVY, _LIGHT)),
    ("a request at a time", 5, (replace(_LIGHT, requests=1), replace(_HEAVY, requests=1))),
    ("in 20 x the requests", _SLOTS, (Crowd("heavy", 1, requests=160), _LIGHT)),
)
"""Ten agents of which one sends 20 x the tokens: variant, slots, agents."""


def figures() -> list[Figure]:
    """Measure every figure, which takes some seconds. Must not be called from a running event loop."""
    show_progress("fairness")
    shares = [
        Figure(f"Jain's index, one of 10 agents with 20 x the tokens, {how}", worst_minute(served), _JAIN, True)
        for how, slots, crowds in SET_UPS
        for served in [saturate(*crowds, slots=slots)]
    ]
    urgent = saturate(
        Crowd("low", _MANY, requests=1, priority="low"), Crowd("critical", 1, requests=1, priority="critical")
    )
    flooded = saturate(Crowd("critical", 30, priority="critical"), Crowd("low", 1, requests=1, priority="low"))
    passes_s = (QueueConfig().max_passes + 1) * _SLOT_S / _SLOTS
    # The urgent agent may hold a slot all the time, and while lengths are estimates a turn may come a round late.
    rounds_s = 2 * (_MANY + 1) * _SLOT_S / (_SLOTS - 1)
    urgent_s = percentile(sorted(_waits(urgent, "critical")), 0.95)
    return [
        *shares,
        Figure(f"wait of CRITICAL beside {_MANY} LOW agents, p95", urgent_s, _SLOT_S, False, "s"),
        Figure(f"longest wait of those {_MANY}", max(_waits(urgent, "low")), rounds_s, False, "s"),
        Figure("longest wait of LOW beside 30 CRITICAL", max(_waits(flooded, "low")), passes_s + _SLOT_S, False, "s"),
    ]


def saturate(*crowds: Crowd, slots: int = _SLOTS) -> list[Served]:
    """Return every answered request of four minutes, in order of completion."""
    return run_virtual(_saturate(crowds, slots))


def worst_minute(served: Sequence[Served]) -> float:
    """Return the smallest Jain index of the weighted tokens over any minute that begins with an answer; between two
    answers the index doesn't change."""
    names = {each.agent for each in served}
    worst, end = 1.0, 0
    amounts = dict.fromkeys(names, 0.0)
    for first in served:
        while end < len(served) and served[end].at < first.at + _WINDOW_S:
            amounts[served[end].agent] += served[end].weighted
            end += 1
        if first.at + _WINDOW_S > _LASTS_S:
            break
        worst = min(worst, jain(amounts.values()))
        amounts[first.agent] -= first.weighted
    return worst


def jain(amounts: Iterable[float]) -> float:
    """Return Jain's fairness index: 1 if all have the same, 1/n if one has everything."""
    values = list(amounts)
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values))


def _waits(served: Iterable[Served], crowd: str) -> list[float]:
    return [each.waited_s for each in served if each.agent.startswith(crowd)]


async def _saturate(crowds: Sequence[Crowd], slots: int) -> list[Served]:
    provider = MockConfig(
        seed=1,
        formats=("anthropic",),
        latency=LatencyConfig(base_s=_SLOT_S, jitter_s=0.0),
        reply=ReplyConfig(tokens=_ANSWER, spread=0),
    )
    changes: dict[str, Any] = {"max_concurrency": slots, "rpm": 0, "tpm": 0, "aimd": {"floor": float(slots)}}

    served: list[Served] = []
    async with in_process(provider_in_loop_time(provider), 1, changes) as transport:
        senders = [
            _send_repeatedly(crowd, f"{crowd.name}-{number}", place, transport, served)
            for crowd in crowds
            for number in range(crowd.agents)
            for place in range(crowd.requests)
        ]
        await asyncio.gather(*senders)
    return served


async def _send_repeatedly(
    crowd: Crowd, name: str, place: int, transport: httpx.AsyncBaseTransport, served: list[Served]
) -> None:
    """Send the next request as soon as the last one is answered. An agent's parallel requests differ, because an
    identical request would join the one that still waits."""
    loop = asyncio.get_running_loop()
    headers = (("x-hivemind-priority", crowd.priority),)
    config = AgentConfig(f"{name}, {place}", turns=0, prompt_tokens=crowd.prompt_tokens, headers=headers)
    agent = Agent(config, transport, f"http://hivemind.localhost/agent/{name}")
    began = loop.time()
    while began < _LASTS_S:
        tokens = await agent.turn()
        now = loop.time()
        served.append(Served(name, now, now - began - _SLOT_S, tokens - _ANSWER + _OUTPUT_WEIGHT * _ANSWER))
        began = now


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run("fairness", __doc__, figures, argv)


if __name__ == "__main__":
    sys.exit(main())
