"""What the program runs, in this process: screens, lines, what is printed at the end, and what outlives a crash."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest
from control.kit import TOKEN, busy_proxy, controlled
from textual.message import Message
from tui.decks import write
from tui.worlds import FakeSource, empty_world, world
from waiting import until

from hivemind.console import Console
from hivemind.host.proxy import Proxy
from hivemind.host.server import serve
from hivemind.records import replace
from hivemind.settings import Settings
from hivemind.world.snapshot import Snapshot
from hivemind_mock.agents.agent import Agent, AgentConfig
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving
from hivemind_tui import replay_app
from hivemind_tui.app import ControlRoom
from hivemind_tui.loop.gc_pacing import quiet
from hivemind_tui.program import headless, main, screens, sessions
from hivemind_tui.program import supervisor as module
from hivemind_tui.program.supervisor import Stop, Supervisor
from hivemind_tui.replay_app import ReplayRoom
from hivemind_tui.sources.base import Link, Local, Source

pytestmark = pytest.mark.e2e
Act = Callable[[ControlRoom], Any]
"""What an operator does once a screen is up."""


class Spoil(Message):
    """Handled badly by every screen."""


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """The stop of the session under test, which no signal sets."""
    made = Stop()

    @contextmanager
    def stop_on_signals() -> Iterator[Stop]:
        yield made

    monkeypatch.setattr(sessions, "stop_on_signals", stop_on_signals)
    return made


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Callable[[Act], None]:
    """Have all screens drawn nowhere, and the operator act on each once it is up."""

    def acts(act: Act) -> None:
        def headless_of(kind: type[ControlRoom]) -> type[ControlRoom]:
            class Headless(kind):  # type: ignore[misc, valid-type]
                async def run_async(self, **_: Any) -> str | None:
                    return await kind.run_async(self, headless=True, size=(100, 30))

                def on_ready(self) -> None:
                    super().on_ready()
                    self.call_after_refresh(act, self)

                def on_spoil(self, _message: Spoil) -> None:
                    raise ZeroDivisionError("a bug in the screen")

            return Headless

        monkeypatch.setattr(screens, "LossyDriver", None)
        monkeypatch.setattr(screens, "ControlRoom", headless_of(ControlRoom))
        monkeypatch.setattr(replay_app, "ReplayRoom", headless_of(ReplayRoom))

    return acts


async def run(argv: list[str], cwd: Path, environ: dict[str, str] | None = None, *, screen: bool) -> str:
    """Run a session until it ends; what it wrote to standard error."""
    stream = io.StringIO()
    console = Console(stream)
    with quiet() as collector:
        async with asyncio.timeout(60):
            options = main.parse(argv, environ or {"HIVEMIND_STATE_DIR": str(cwd)}, cwd)
            assert not await sessions.run_session(options, console, collector, with_screen=screen)
    assert console.close(5.0)
    return stream.getvalue()


async def test_a_recording_is_shown_until_its_screen_is_left(
    operator: Callable[[Act], None], stop: Stop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The screen is one for recordings and has the journal to simulate; then the summary of all of it is printed."""
    seen: list[object] = []

    def act(room: ControlRoom) -> None:
        assert isinstance(room, ReplayRoom)
        seen.append(room.recording.journal)
        room.exit("quit")

    operator(act)
    path = write(tmp_path)
    assert await run(["--replay", str(path)], tmp_path, screen=True) == ""
    assert seen == [path]
    assert stop.is_set()
    said = capsys.readouterr().out
    assert "36 requests: " in said
    assert f"journal {path.stem}; to look again:" in said
    assert f"hivemind-tui --replay {path}" in said


async def test_a_recording_whose_screen_fails_names_its_lines(
    operator: Callable[[Act], None], stop: Stop, tmp_path: Path
) -> None:
    """It is drawn again once; there is no proxy that would have to go on."""
    rooms: list[ControlRoom] = []

    def act(room: ControlRoom) -> None:
        rooms.append(room)
        room.post_message(Spoil())

    operator(act)
    text = await run(["--replay", str(write(tmp_path))], tmp_path, screen=True)
    assert "the same journal in lines: hivemind-tui --replay FILE | cat" in text
    assert len(rooms) == 2
    assert not stop.is_set()


async def test_the_demo_can_be_started_from_the_first_screen(
    operator: Callable[[Act], None],
    stop: Stop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is shown in place of the unused proxy; leaving drains both, and the closing table is the demo's."""
    pages: list[str] = []

    def act(room: ControlRoom) -> None:
        pages.append(room.view.page)
        show = room.go

        def go(view: Any) -> None:
            show(view)
            pages.append(room.view.page)
            room.exit("quit")

        monkeypatch.setattr(room, "go", go)
        room.action_demo()

    operator(act)
    monkeypatch.setattr(main, "has_screen", lambda: True)
    report = tmp_path / "report.json"
    text = await run(["--port", "0", "--monitor", str(report)], tmp_path, screen=True)
    assert pages == ["start", "overview"]
    assert "the screen failed" not in text
    out = capsys.readouterr().out
    assert "hivemind-tui --replay " in out
    assert len([*(tmp_path / "demo-journals").glob("*.jsonl")]) == 1
    assert msgspec.json.decode(report.read_bytes())["steps"]


@pytest.mark.parametrize("with_screen", [True, False])
async def test_a_proxy_elsewhere_is_watched(
    operator: Callable[[Act], None], stop: Stop, tmp_path: Path, capsys: pytest.CaptureFixture[str], with_screen: bool
) -> None:
    """On a screen or in lines, until it is left; then the summary says that the proxy goes on."""
    operator(lambda room: room.exit("quit"))
    environ = {"HIVEMIND_CONTROL_TOKEN": TOKEN}
    async with controlled(busy_proxy()) as url:
        if not with_screen:
            stop.ask()
        await run(["--attach", url], tmp_path, environ, screen=with_screen)
    said = capsys.readouterr().out
    assert (f"hivemind-tui: attached to {url}" in said) == (not with_screen)
    assert "goes on" in said


async def test_lines_say_when_the_connection_is_lost_and_back(stop: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each time, with the reason."""
    links = [Link("attached"), *[Link("attached", "", 1.0, "refused")] * 2, *[Link("attached")] * 2]

    class Flaky(FakeSource):
        def snapshot(self) -> Snapshot:
            if len(links) == 1:
                stop.ask()
            self.link = links.pop(0)
            return super().snapshot()

    stream = io.StringIO()
    console = Console(stream)
    monkeypatch.setattr(headless, "_LOOK_EVERY_S", 0.001)
    await headless.follow(Flaky(replace(world(), lines=())), console, stop)
    assert console.close(5.0)
    assert stream.getvalue().splitlines() == ["not connected: refused", "connected again"]


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
