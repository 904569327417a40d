"""What the program runs, in this process: screens without a terminal, lines, and what is printed at the end."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from control.kit import TOKEN, busy_proxy, controlled
from textual.message import Message
from tui.decks import write
from tui.worlds import FakeSource, world

from hivemind.console import Console
from hivemind.records import replace
from hivemind.world.snapshot import Snapshot
from hivemind_tui import replay_app
from hivemind_tui.app import ControlRoom
from hivemind_tui.loop.gc_pacing import quiet
from hivemind_tui.program import headless, main, screens, sessions
from hivemind_tui.program.supervisor import Stop
from hivemind_tui.replay_app import ReplayRoom
from hivemind_tui.sources.base import Link

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
