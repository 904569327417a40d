"""What the program runs: a proxy of its own, one that runs elsewhere, or a recording.

A start has an order. What the screen needs is imported before the proxy takes its first connection, so that no client
meets a loop that is held for it; what the first frame doesn't need is imported after that frame.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from msgspec import Struct, field

from hivemind.console import Console
from hivemind.errors import BindError, UsageError
from hivemind.host.summary import Journal, journal_at, journal_of, soon_read, summary, wait_causes_of
from hivemind.records import replace
from hivemind.text.table import width
from hivemind.waiting import wait_up_to
from hivemind_tui.loop.gc_pacing import Collector
from hivemind_tui.program.preferences import Preferences, remember
from hivemind_tui.program.supervisor import Stop, Supervisor, stop_on_signals
from hivemind_tui.sources.base import Local
from hivemind_tui.sources.demo import Demo, DemoSource

if TYPE_CHECKING:
    from hivemind.host.proxy import Proxy
    from hivemind.journal.index.player import Player
    from hivemind.settings import Settings
    from hivemind.world.snapshot import Snapshot
    from hivemind_tui.program.screens import Screens
    from hivemind_tui.sources.fleet import FleetSource
    from hivemind_tui.sources.remote import AttachedSource

_DEMO_WITHOUT_SCREEN_S = 20.0
_FIRST_FRAME_S = 3.0


class RemoteProxy(NamedTuple):
    """The address of a proxy, and where its token is."""

    url: str
    token_file: Path | None
    environ: Mapping[str, str]
    store: bool = False
    """It is a fleet's store, which shows all of its proxies."""
    ca_file: Path | None = None


class Options(NamedTuple):
    """The parsed command line."""

    settings: Settings
    file: Path = Path()
    """Where tuned knobs are written."""
    demo: Demo | None = None
    monitor: Path | None = None
    """Where to write, at the end, how long the screen held the loop."""
    remote: RemoteProxy | None = None
    """A proxy to attach to, in place of one of our own."""
    replay: Path | None = None
    """A journal to play back, in place of a proxy."""
    preferences: Preferences | None = None
    """What the screen's own file says."""
    in_browser: bool = False
    """The screen is a browser's, behind a web server that has started this process."""
    first_run: bool = False
    """No upstream is set, so the screen explains how to connect, and offers the demo."""


async def run_session(options: Options, console: Console, collector: Collector, *, with_screen: bool) -> bool:
    """Run what the options say until asked to stop. Return whether the terminal is stuck.

    Raises: BindError; UsageError: the address, the journal or the state of an earlier run can't be used.
    """
    with stop_on_signals() as stop:
        async with AsyncExitStack() as stack:
            first_frame = asyncio.Event()
            screens = await _enter_screens(options, console, collector, first_frame, stack) if with_screen else None
            supervisor = Supervisor(console, stop)
            if options.replay is not None:
                assert screens is not None
                await _replay(options.replay, console, supervisor, screens)
            elif options.remote is not None:
                await _attach(options.remote, supervisor, screens)
            else:
                await _ProxySession(options, collector, stack, first_frame).run(supervisor, screens, stop)
            if screens is not None and options.preferences is not None:
                _remember_theme(options.preferences, screens)
            return supervisor.stuck


def _remember_theme(preferences: Preferences, screens: Screens) -> None:
    if screens.chosen_theme and preferences.remember_in is not None:
        with suppress(OSError):  # a folder that can't be written is no reason to end with an error
            remember(preferences.remember_in, screens.chosen_theme)


async def _enter_screens(
    options: Options, console: Console, collector: Collector, first_frame: asyncio.Event, stack: AsyncExitStack
) -> Screens:
    from hivemind_tui.program import preferences
    from hivemind_tui.program.screens import Screens  # Textual, which lines don't need
    from hivemind_tui.render.notices import NoticesWanted

    settings = options.settings
    token = settings.token is not None and options.remote is None
    alerts = settings.alerts
    screens = Screens(
        drain_s=settings.drain_s,
        token=token,
        collector=collector,
        first_frame=first_frame,
        notices=NoticesWanted(alerts.bell, alerts.desktop, alerts.title),
    )
    if options.preferences is not None and (told := preferences.apply(options.preferences, screens)):
        console.line(told)
    if options.in_browser:
        from hivemind_tui.loop.web_driver import BrowserDriver

        screens.driver = BrowserDriver
    stack.push_async_callback(screens.plots.aclose)
    if options.monitor is not None:
        stack.callback(screens.write_report, options.monitor)
    return screens


def _summary(snapshot: Snapshot, journal: Journal | None, *, goes_on: bool = False) -> list[str]:
    return list(summary(snapshot, journal, width(), goes_on=goes_on, causes=wait_causes_of(journal)))


async def _attach(remote: RemoteProxy, supervisor: Supervisor, screens: Screens | None) -> None:
    from hivemind_tui.sources.remote import attached  # an HTTP client, which the other sessions don't need at once

    source: AttachedSource | FleetSource
    async with AsyncExitStack() as stack:
        if remote.store:
            from hivemind_tui.sources.fleet import attached_to_fleet  # which needs a library that few have

            source = await stack.enter_async_context(attached_to_fleet(remote.url, remote.environ, remote.ca_file))
        else:
            entered = attached(remote.url, remote.environ, token_file=remote.token_file)
            source = await stack.enter_async_context(entered)
        if screens is None:
            print(f"hivemind-tui: attached to {source.link.where}", flush=True)
        await supervisor.watch(source, screens.on(source) if screens is not None else None)
        snapshot = source.snapshot()
        if snapshot.upstreams and not supervisor.stuck:  # else there never was an answer
            await supervisor.print(_summary(snapshot, journal_of(snapshot), goes_on=source.link.lost_for_s is None))


async def _replay(path: Path, console: Console, supervisor: Supervisor, screens: Screens) -> None:
    from hivemind.journal.index.player import Player
    from hivemind_tui.sources.replay import ReplaySource

    player = Player(path, priced=True)
    try:
        source = ReplaySource(player, player.name or path.stem)
        source.journal = path
        if not await supervisor.show(screens.on(source)):
            console.line("the screen failed; the same journal in lines: hivemind-tui --replay FILE | cat")
        elif not supervisor.stuck:
            await supervisor.print(_recorded(player, path))
    finally:
        player.close()


def _recorded(player: Player, path: Path) -> list[str]:
    """Return the summary of a recording: of its end, if that is soon found, else of the moment that was shown."""
    with suppress(UsageError, OSError):  # the files are gone; what was shown is still known
        if player.known_to >= 1 or soon_read(player.parts):
            player.seek(player.ends_at)
    snapshot = player.world.snapshot(player.at)
    left_at = f"until {time.strftime('%H:%M:%S', time.localtime(snapshot.wall))}, as the replay was left:"
    return [left_at] * (player.at < player.ends_at) + _summary(snapshot, journal_at(path, snapshot.wall))


class _ProxySession(Struct):
    """A proxy in this process, and the demo, which may also be started later beside an unused proxy."""

    options: Options
    collector: Collector
    stack: AsyncExitStack
    first_frame: asyncio.Event
    running: list[tuple[Proxy, DemoSource | None]] = field(default_factory=list)

    async def run(self, supervisor: Supervisor, screens: Screens | None, stop: Stop) -> None:
        """Serve until asked to stop, then drain."""
        options = self.options
        world = None
        if options.demo is not None:
            world = await self.stack.enter_async_context(DemoSource(options.demo))
        proxy, settings = await self._serve(options.settings, world)
        if screens is None:
            from hivemind.host.listening import print_ready, ready_line

            print_ready(ready_line(proxy.address, settings, "hivemind-tui"))
            self.collector.settle()
            self.first_frame.set()
            if world is not None:
                asyncio.get_running_loop().call_later(_DEMO_WITHOUT_SCREEN_S, stop.ask)
        elif options.first_run:
            screens.start_demo = self._start_demo
        if world is not None:
            world.begin_later(self._begin_after_first_frame(world, proxy))
        source = Local(proxy, options.file)
        await supervisor.watch(source, screens.on(source) if screens is not None else None)
        ends = []
        for proxy, world in self.running:
            snapshot = proxy.snapshot()
            if world is not None:
                await world.stop_agents()
            await supervisor.drain(proxy, settings.drain_s)
            ends.append(proxy.snapshot() if world is None else snapshot)  # agents of a demo are cut off by its end
        if not supervisor.stuck:
            for end in [each for each in ends if each.totals.requests] or ends[-1:]:
                await supervisor.print(_summary(end, journal_of(end)))

    async def _start_demo(self) -> Local:
        world = await self.stack.enter_async_context(DemoSource(Demo()))
        proxy, _ = await self._serve(replace(self.options.settings, port=0), world)
        await self._begin(world, proxy)
        return Local(proxy, self.options.file)

    async def _begin_after_first_frame(self, world: DemoSource, proxy: Proxy) -> None:
        await wait_up_to(self.first_frame, _FIRST_FRAME_S)  # a screen that fails mustn't keep the demo waiting
        await self._begin(world, proxy)

    async def _begin(self, world: DemoSource, proxy: Proxy) -> None:
        token = self.options.settings.token
        path = "" if token is None else f"/token/{quote(token.reveal(), safe='')}"
        await world.begin(proxy.address + path, proxy.apply)
        self.collector.settle()

    async def _serve(self, settings: Settings, world: DemoSource | None) -> tuple[Proxy, Settings]:
        """Start and serve a proxy; one for a demo on a free port where its own is taken, with nothing kept of it but a
        journal, for a while."""
        from hivemind.host.proxy import Proxy
        from hivemind.host.server import serve
        from hivemind.journal.files import demo_folder_in
        from hivemind.prices import Prices
        from hivemind.store.token_file import state_dir

        used = settings if world is None else world.behind(settings)
        try:
            proxy = Proxy(used, prices=Prices(), settings_file=self.options.file)
            journals = None
            if world is not None and used.journal.enabled:
                with suppress(OSError):  # there is no folder for anything that is kept
                    journals = demo_folder_in(state_dir(used.state_dir))
            await self.stack.enter_async_context(serve(proxy, used, durable=world is None, journals=journals))
        except BindError:
            if world is None or not settings.port:
                raise
            return await self._serve(replace(settings, port=0), world)
        self.running.append((proxy, world))
        return proxy, used
