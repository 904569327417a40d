"""`hivemind-tui`: the proxy and its control room in one process, on one event loop.

A start has an order. What the screen needs is imported before the proxy takes its first connection, so that no client
meets a loop that is held for it; what the first frame doesn't need is imported after that frame.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO, cast
from urllib.parse import quote

from hivemind import __version__
from hivemind.console import Console, printable
from hivemind.errors import BindError, HiveMindError, UsageError
from hivemind_tui.loop.gc_pacing import Collector, quiet
from hivemind_tui.program.attach import RemoteProxy
from hivemind_tui.program.attach import watch as watch_remote
from hivemind_tui.render import capabilities as terminal
from hivemind_tui.sources.demo import DeferredDemo, Demo, DemoWorld

if TYPE_CHECKING:
    import argparse

    from hivemind.host.proxy import Proxy
    from hivemind.host.server import Served
    from hivemind.settings import Settings
    from hivemind_tui.program.screens import Screens

_DEMO_WITHOUT_SCREEN_S = 20.0
_FIRST_FRAME_S = 3.0
_AGENTS, _SEED = 11, 2125
_OF_REPLAYS = {"state_dir", "log_level"}
"""Settings that mean something where no proxy runs."""
"""Of the demo, where nobody says otherwise."""


class Options(NamedTuple):
    """What the command line says."""

    settings: Settings
    file: Path
    """Where tuned knobs are written."""
    demo: Demo | None = None
    monitor: Path | None = None
    """Where to write, at the end, how long the screen held the loop."""
    remote: RemoteProxy | None = None
    """A proxy to attach to, in place of one of our own."""
    replay: Path | None = None
    """A journal to look at, in place of a proxy."""
    first_run: bool = False
    """No upstream is set, so the screen explains how to connect, and offers the demo."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns the exit code."""
    try:
        with quiet() as collector:
            return _run(parse(sys.argv[1:] if argv is None else argv, os.environ, Path.cwd()), collector)
    except HiveMindError as error:
        print(f"hivemind-tui: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever reads the lines has seen enough
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parse(argv: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Options:
    """Read flags, variables and file. Raises: UsageError."""
    from hivemind.parser import PrintCompletion
    from hivemind.settings import FIRST_UPSTREAMS, Parser, add_flags, from_flags, settings_file

    parser = Parser(
        prog="hivemind-tui",
        usage="%(prog)s [--upstream URL | --demo | --attach URL | --replay FILE] [setting ...]",
        description="The proxy and its control room, in which ? lists the keys. With nothing set, requests go by the"
        " API that their path belongs to: to Anthropic, OpenAI or Google. Without a terminal: no screen, but lines.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--print-completion", action=PrintCompletion)
    parser.add_argument(
        "--monitor", type=Path, metavar="FILE", help="at the end, write how long the screen held the traffic up (JSON)"
    )
    attach = parser.add_argument_group("a remote proxy")
    attach.add_argument(
        "--attach", metavar="URL", help="show and steer the proxy at this address; leaving doesn't stop it"
    )
    attach.add_argument(
        "--token-file", type=Path, metavar="FILE", help="where its control token is noted, if not in the usual place"
    )
    recorded = parser.add_argument_group("a recording")
    recorded.add_argument(
        "--replay", metavar="FILE", help="play a journal back: a path, its name, the beginning of that, or latest"
    )
    demo = parser.add_argument_group("demo")
    demo.add_argument("--demo", action="store_true", help="watch mock agents live through a mock provider's bad day")
    demo.add_argument("--demo-agents", type=int, default=_AGENTS, metavar="N", help=f"how many of them [{_AGENTS}]")
    demo.add_argument("--seed", type=int, default=_SEED, metavar="N", help=f"of the demo's faults and agents [{_SEED}]")
    add_flags(parser)
    namespace = parser.parse_args(list(argv))
    settings = from_flags(namespace, environ=environ, cwd=cwd)
    if namespace.replay is not None:
        return _replaying(namespace, settings)
    if namespace.attach is not None:
        return _attaching(namespace, settings, environ)
    if namespace.token_file is not None:
        parser.error("--token-file: only goes with --attach")
    file = settings_file(namespace, environ=environ, cwd=cwd)
    if namespace.demo:
        if not 0 <= namespace.demo_agents <= 1000:
            parser.error(f"--demo-agents {namespace.demo_agents}: must be from 0 to 1000")
        return Options(settings, file, Demo(namespace.demo_agents, namespace.seed), namespace.monitor)
    if not settings.upstream and not has_screen():
        raise UsageError("no upstream: say where requests go with --upstream https://api.anthropic.com, or try --demo")
    first_run = not settings.upstream
    if first_run:
        settings = settings.model_copy(update={"upstream": FIRST_UPSTREAMS})
    settings.origins()
    return Options(settings, file, monitor=namespace.monitor, first_run=first_run)


def _attaching(namespace: argparse.Namespace, settings: Settings, environ: Mapping[str, str]) -> Options:
    """What --attach asks for. Raises: UsageError: flags of a proxy of our own stand beside it."""
    from hivemind.settings.flags import given_flags

    if namespace.demo or "upstream" in given_flags(namespace):
        other = "--demo" if namespace.demo else "--upstream"
        raise UsageError(f"{other}: doesn't go with --attach, which shows a proxy that runs already")
    told = dict(environ)
    if settings.control_token is not None:
        told["HIVEMIND_CONTROL_TOKEN"] = settings.control_token.get_secret_value()
    if settings.state_dir is not None:
        told["HIVEMIND_STATE_DIR"] = str(settings.state_dir)
    remote = RemoteProxy(namespace.attach, namespace.token_file, told)
    return Options(settings, Path(), monitor=namespace.monitor, remote=remote)


def _replaying(namespace: argparse.Namespace, settings: Settings) -> Options:
    """What --replay asks for. Raises: UsageError: there is no such journal, or another thing to show stands beside."""
    from hivemind.journal.files import find
    from hivemind.settings.flags import given_flags
    from hivemind.store.token_file import state_dir

    others = {"--attach": namespace.attach, "--token-file": namespace.token_file, "--demo": namespace.demo}
    for key in sorted(given_flags(namespace).keys() - _OF_REPLAYS):
        others[f"--{key.replace('_', '-')}"] = True
    for other, given in others.items():
        if given:
            raise UsageError(f"{other}: doesn't go with --replay, which shows what was recorded")
    path = find(namespace.replay, state_dir(settings.state_dir))
    return Options(settings, Path(), monitor=namespace.monitor, replay=path)


def has_screen() -> bool:
    """Whether there is a terminal to draw on and to read keys from."""
    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "") != "dumb"


def _run(options: Options, collector: Collector) -> int:
    with_screen = has_screen()
    if options.monitor is not None:
        _check_monitor(options.monitor, with_screen)
    if options.replay is not None and not with_screen:
        from hivemind_tui.program.replay import print_lines

        return print_lines(options.replay)
    if with_screen:
        terminal.prepare(os.environ)
    from hivemind import logs
    from hivemind.host import server

    console = Console(sys.stderr)
    logs.configure(options.settings.log_level, cast(TextIO, console))
    stuck = False
    try:
        stuck = server.run_loop(_live(options, console, collector, with_screen=with_screen))
    finally:
        stuck = not console.close() or stuck
    if stuck:
        # The terminal takes nothing more, and Python would wait for it while it flushes.
        os._exit(0)
    return 0


def _check_monitor(file: Path, with_screen: bool) -> None:
    """Raises: UsageError: it can't be written, or there is nothing to write."""
    if not with_screen:
        raise UsageError(
            "--monitor watches the screen, and there is none: standard input and output must be a terminal"
        )
    try:
        file.touch()
    except OSError as error:
        raise UsageError(f"--monitor {file}: can't be written ({error.strerror})") from None


async def _live(options: Options, console: Console, collector: Collector, *, with_screen: bool) -> bool:
    """Serve until told to stop, and drain. Return whether the terminal is stuck. Raises: BindError, UsageError."""
    from hivemind_tui.program.headless import closing_table
    from hivemind_tui.program.signals import stop_on_signals
    from hivemind_tui.program.supervisor import Supervisor
    from hivemind_tui.sources.base import Local

    settings, up = options.settings, asyncio.Event()
    if options.replay is not None:
        from hivemind_tui.program.replay import watch as watch_recorded

        return await watch_recorded(options.replay, console, partial(_enter_screens, options, collector, up))
    if options.remote is not None:
        async with AsyncExitStack() as stack:
            screens = await _enter_screens(options, collector, up, stack) if with_screen else None
            return await watch_remote(options.remote, console, screens)
    with stop_on_signals() as stop:
        async with AsyncExitStack() as stack:
            screens = await _enter_screens(options, collector, up, stack) if with_screen else None
            world = None if options.demo is None else await stack.enter_async_context(DemoWorld(options.demo))
            if world is not None:
                settings = world.behind(settings)
            proxy, served = await _enter_proxy(settings, options.file, world is not None, stack)
            if screens is None:
                targets = ", ".join(f"{origin.name} {origin.url}" for origin in settings.origins())
                print(f"hivemind-tui: ready on {served.url} -> {targets}", flush=True)
                collector.settle()
                up.set()
                if world is not None:
                    asyncio.get_running_loop().call_later(_DEMO_WITHOUT_SCREEN_S, stop.ask)
            deferred = DeferredDemo(
                partial(_start_demo, settings, options.file, stack, collector), settings.drain_s, options.file
            )
            if screens is not None and options.first_run:
                screens.start_demo = deferred.start
            supervisor = Supervisor(proxy, console, stop, drain_s=settings.drain_s)
            async with (
                _at_work(world, proxy, _for_agents(served.url, settings), up, collector)
                if world is not None
                else nullcontext()
            ):
                await supervisor.watch(screens.on(Local(proxy, options.file)) if screens else None)
                snapshot = proxy.snapshot()
            await supervisor.drain()
            snapshot = await deferred.finished() or snapshot
            if (world is not None or deferred.world is not None) and not supervisor.stuck:
                print(closing_table(snapshot), flush=True)
            return supervisor.stuck


async def _start_demo(
    settings: Settings, file: Path, stack: AsyncExitStack, collector: Collector
) -> tuple[Proxy, DemoWorld]:
    """Start the demo beside an unused proxy, on a port of its own."""
    world = await stack.enter_async_context(DemoWorld(Demo(_AGENTS, _SEED)))
    proxy, served = await _enter_proxy(world.behind(settings).model_copy(update={"port": 0}), file, True, stack)
    await world.begin(_for_agents(served.url, settings), proxy.apply)
    collector.settle()
    return proxy, world


def _for_agents(url: str, settings: Settings) -> str:
    """The address that the demo's agents use, with the token where they must show one."""
    return url if settings.token is None else f"{url}/token/{quote(settings.token.get_secret_value(), safe='')}"


async def _enter_screens(options: Options, collector: Collector, up: asyncio.Event, stack: AsyncExitStack) -> Screens:
    """Import and make what screens need; `up` is set when there is a first frame."""
    from hivemind_tui.program.screens import Screens  # Textual, which lines don't need

    token = options.settings.token is not None and options.remote is None
    screens = Screens(drain_s=options.settings.drain_s, token=token, collector=collector, up=up)
    stack.push_async_callback(screens.aclose)
    if options.monitor is not None:
        stack.callback(screens.write_report, options.monitor)
    return screens


@asynccontextmanager
async def _at_work(
    world: DemoWorld, proxy: Proxy, url: str, up: asyncio.Event, collector: Collector
) -> AsyncIterator[None]:
    """The demo in the background, from the first frame on; leaving ends its agents."""

    async def begin() -> None:
        with suppress(TimeoutError):  # a screen that fails mustn't keep it waiting
            async with asyncio.timeout(_FIRST_FRAME_S):
                await up.wait()
        await world.begin(url, proxy.apply)
        collector.settle()

    beginning = asyncio.create_task(begin(), name="hivemind-demo")
    try:
        yield
    finally:
        beginning.cancel()
        with suppress(asyncio.CancelledError):
            await beginning
        await world.dismiss()


async def _enter_proxy(settings: Settings, file: Path, demo: bool, stack: AsyncExitStack) -> tuple[Proxy, Served]:
    """Start and serve the proxy; the demo's on a free port where its own is taken, and nothing outlives that one.

    Raises: BindError; UsageError: what was kept of an earlier run can't be used.
    """
    from hivemind.host.proxy import Proxy
    from hivemind.host.server import serve
    from hivemind.prices import Prices

    try:
        proxy = Proxy(settings, prices=Prices())
        proxy.settings_file = file
        return proxy, await stack.enter_async_context(serve(proxy, settings, durable=not demo))
    except BindError:
        if not demo or not settings.port:
            raise
    return await _enter_proxy(settings.model_copy(update={"port": 0}), file, True, stack)
