"""The proxy outlives its screen: a crash is drawn again, then gives way to lines, while every stream goes on."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from textual.message import Message
from tui.worlds import FakeSource, empty_world, world
from waiting import until

from hivemind.console import Console
from hivemind.host.proxy import Proxy
from hivemind.host.server import serve
from hivemind.settings import Settings
from hivemind_mock.agents.agent import Agent, AgentConfig
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving
from hivemind_tui.app import ControlRoom
from hivemind_tui.program import supervisor as module
from hivemind_tui.program.supervisor import Stop, Supervisor
from hivemind_tui.sources.base import Local, Source

pytestmark = pytest.mark.e2e


class Spoil(Message):
    """Handled badly, outside every guard."""


class Screen(ControlRoom):
    """A control room without a terminal, which can be made to crash."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, environment={})
        self.up = asyncio.Event()

    async def run_async(self, **_: Any) -> str | None:
        return await super().run_async(headless=True, size=(100, 30))

    def on_ready(self) -> None:
        self.up.set()

    def on_spoil(self, _message: Spoil) -> None:
        raise ZeroDivisionError("a bug in the screen")


class Host(FakeSource):
    """A source that notes how it was drained."""

    drained: float | None = None
    takes_s = 0.0

    async def drain(self, timeout_s: float) -> None:
        self.drained = timeout_s
        await asyncio.sleep(self.takes_s)


class Stage:
    """A supervisor with everything around it."""

    def __init__(self, source: Source) -> None:
        self.stream = io.StringIO()
        self.console = Console(self.stream)
        self.stop = Stop()
        self.screens: list[Screen] = []
        self.made = asyncio.Event()
        self.supervisor = Supervisor(self.console, self.stop)
        self.source = source

    def make(self) -> Screen:
        self.screens.append(Screen(self.source))
        self.made.set()
        return self.screens[-1]

    async def screen(self, number: int) -> Screen:
        """The screen of that number, once it is up."""
        async with asyncio.timeout(30):
            while len(self.screens) < number:
                await self.made.wait()
                self.made.clear()
            await self.screens[number - 1].up.wait()
        return self.screens[number - 1]

    def text(self) -> str:
        """Everything written so far; ends the console."""
        assert self.console.close(5.0)
        return self.stream.getvalue()


async def test_a_crash_is_drawn_again_and_the_next_gives_way_to_lines_while_streams_go_on() -> None:
    """Two crashes in a row under load: a new screen, then lines; every stream through the proxy completes."""
    calm = MockConfig(
        seed=1,
        latency=LatencyConfig(base_s=0.02, jitter_s=0.01, token_s=0.004),
        reply=ReplyConfig(tokens=150, spread=0, event_tokens=1),
    )
    async with serving(MockProvider(calm)) as url, httpx.AsyncHTTPTransport() as transport:
        settings = Settings(upstream=(f"mock={url}",), port=0, profile="anthropic", rpm=0, tpm=0)
        proxy = Proxy(settings)
        async with serve(proxy, settings):
            stage = Stage(Local(proxy, Path("hivemind.toml")))
            watching = asyncio.create_task(stage.supervisor.watch(stage.source, stage.make))
            agents = [
                Agent(AgentConfig(name=f"a{n}", turns=2, stream=True), transport, f"{proxy.address}/agent/a{n}")
                for n in range(5)
            ]
            turns = [asyncio.create_task(agent.turn()) for agent in agents]
            (await stage.screen(1)).post_message(Spoil())
            (await stage.screen(2)).post_message(Spoil())
            assert all(await asyncio.gather(*turns))
            assert proxy.snapshot().totals.failed == 0
            await stage.supervisor.in_lines.wait()
            stage.stop.ask()
            await watching
            assert len(stage.screens) == 2
            assert "the screen failed; the proxy goes on" in stage.text()


@pytest.mark.slow
async def test_a_crash_long_after_the_last_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A screen that worked for a while before it failed is worth drawing again, as often as that happens."""
    monkeypatch.setattr(module, "REDRAW_S", 0.0)
    stage = Stage(Host(world()))
    watching = asyncio.create_task(stage.supervisor.watch(stage.source, stage.make))
    for number in (1, 2, 3):
        (await stage.screen(number)).post_message(Spoil())
    (await stage.screen(4)).exit("quit")
    await watching
    assert stage.stop.is_set()
    stage.text()


async def test_quitting_the_screen_stops_and_drains() -> None:
    """Where the operator ends the screen, nothing is drawn again; draining says what it waits for."""
    host = Host(world())
    host.takes_s = 0.2
    stage = Stage(host)
    watching = asyncio.create_task(stage.supervisor.watch(stage.source, stage.make))
    (await stage.screen(1)).exit("quit")
    await watching
    await stage.supervisor.drain(cast(Proxy, host), 5.0)
    assert host.drained == 5.0
    assert not stage.supervisor.stuck
    assert "draining: 6 requests in flight, at most 5 s" in stage.text()


async def test_a_stop_ends_the_screen() -> None:
    """A signal ends the screen from outside, and nothing is drawn again."""
    stage = Stage(Host(world()))
    watching = asyncio.create_task(stage.supervisor.watch(stage.source, stage.make))
    await stage.screen(1)
    stage.stop.ask()
    await watching
    assert len(stage.screens) == 1
    stage.text()


async def test_a_screen_that_cannot_be_made_gives_way_to_lines() -> None:
    """An error before the screen is up counts as a crash, not as the end of the proxy."""
    stage = Stage(Host(empty_world()))
    calls: list[int] = []

    def make() -> Screen:
        calls.append(1)
        raise RuntimeError("no theme")

    watching = asyncio.create_task(stage.supervisor.watch(stage.source, make))
    await stage.supervisor.in_lines.wait()
    stage.stop.ask()
    await watching
    assert len(calls) == 2
    assert "in plain lines" in stage.text()


async def test_another_program_may_have_the_terminal_between_two_screens(tmp_path: Path) -> None:
    """The next screen comes once it has ended; asked to stop, it is ended too."""
    stage, left, begun = Stage(FakeSource(world())), tmp_path / "left", tmp_path / "begun"
    watching = asyncio.create_task(stage.supervisor.watch(stage.source, stage.make))
    first = await stage.screen(1)
    first.aside = (sys.executable, "-c", f"open({str(left)!r}, 'w')")
    first.exit("aside")
    second = await stage.screen(2)
    assert left.exists()
    second.aside = (sys.executable, "-c", f"import time; open({str(begun)!r}, 'w'); time.sleep(600)")
    second.exit("aside")
    await until(begun.exists)
    stage.stop.ask()
    await watching
    assert len(stage.screens) == 2
