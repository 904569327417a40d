"""Agent frameworks, as installed from PyPI: how many of three copies of a program live, by what befalls them.

The programs are in `frameworks/`, as the frameworks' manuals have them but for a name of each agent.
`make test-clients` runs those whose framework is in an environment of its own among HIVEMIND_CLIENTS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.kit import CREW, END, SHOWN, Cells, scene
from clients.known import FRAMEWORKS, Tried
from clients.table import WORLDS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchmarks.planned.plan import Plan, Step
from hivemind.cli.agents import run as cli_run
from hivemind.settings.sections import RetrySettings
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig

pytestmark = pytest.mark.clients
COPIES = 3
HANGS_S = 400.0
LATENCY = LatencyConfig(base_s=0.3, jitter_s=0.1, token_s=0.005)
CUT = {"faults": FaultConfig(reset_mid=0.3)}
FAULTS: dict[str, dict[str, Any]] = dict(
    zip(
        WORLDS,
        (
            {},
            {"faults": FaultConfig(rate_limited=0.3)},  # without Retry-After
            {"faults": FaultConfig(overloaded=0.1, spell_every_s=6.0, spell_first_s=0.1, spell_s=3.0)},  # 529, 503
            {"limits": LimitConfig(concurrency=2)},
            CUT,
            CUT,
        ),
        strict=True,
    )
)
CUT_STREAMS, HELD = WORLDS[-2:]
HOLDS = "--hold-answers" in Path(cli_run.__file__).read_text("utf-8")
PLAN = Plan(
    (
        *(Step(tool=name, arguments={"text": "one"}) for name in ("count", "Tools-count")),
        Step(tool="transfer_to_critic", arguments={}),
        Step(tool="final_answer", arguments={"answer": END}),
        Step(say=END),
    )
)


def unstated(app: ASGIApp) -> ASGIApp:
    """A provider that never says when to come back."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def without(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [each for each in message["headers"] if each[0] != b"retry-after"]
            await send(message)

        await app(scope, receive, without)

    return wrapped


@pytest.mark.parametrize("world", FAULTS)
@pytest.mark.parametrize("framework", [pytest.param(each, id=each.name) for each in FRAMEWORKS])
async def test_a_crew_lives(
    framework: Tried, world: str, cells_of: Callable[[Tried, str], Cells], tmp_path: Path
) -> None:
    """Three copies end well, and their agents are shown below them; but a cut stream ends a program that asks for
    streams, unless answers are held."""
    if world == HELD and not (framework.streams and HOLDS):
        pytest.skip("nothing is held")
    cells = cells_of(framework, CREW)
    config = MockConfig(seed=5, latency=LATENCY, reply=ReplyConfig(tokens=40, spread=20), **FAULTS[world])
    usual = {"base_s": RetrySettings().base_s, "max_s": RetrySettings().max_s}
    trying = scene(framework, tmp_path, config=config, plan=PLAN, wrapped=unstated, retry=usual)
    async with asyncio.timeout(HANGS_S), trying as stage:
        flags = ("--hold-answers",) if world == HELD else ()
        runs = [
            stage.place.ran("--name", f"crew-{n}", *flags, "--", *framework.command, **stage.environ(framework))
            for n in range(COPIES)
        ]
        ended = await asyncio.gather(*runs)
        names = {agent.name for agent in stage.proxy.snapshot().agents if agent.requests}
    dead = [each for each in ended if each.code or END not in each.out]
    wrong = f"{COPIES - len(dead)} of {COPIES} alive: {dead[0].err[-SHOWN:]}" if dead else ""
    members = {f"crew-{n}/writer" for n in range(COPIES)}
    cells.note(world, wrong or ("" if members <= names else f"agents are {', '.join(sorted(names))}"))
    if not (framework.streams and world == CUT_STREAMS):
        cells.check()
