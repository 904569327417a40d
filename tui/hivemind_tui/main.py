"""`hivemind-tui`: the proxy and its control room in one process, on one event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from hivemind import __version__
from hivemind.console import Console
from hivemind.errors import BindError, HiveMindError, UsageError
from hivemind.settings import Parser, Settings, add_flags, from_flags

from .lines import closing_table
from .signals import stop_on_signals
from .supervisor import MakeScreen, Supervisor

if TYPE_CHECKING:
    from hivemind.proxy.app import Proxy
    from hivemind.server import Served

_DEMO_WITHOUT_SCREEN_S = 20.0


@dataclass(frozen=True, slots=True)
class Demo:
    """The built-in world: a mock provider and mock agents."""

    agents: int
    seed: int


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns the exit code."""
    try:
        settings, demo = parse(sys.argv[1:] if argv is None else argv, os.environ, Path.cwd())
        return _run(settings, demo)
    except HiveMindError as error:
        print(f"hivemind-tui: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def parse(argv: Sequence[str], environ: Mapping[str, str], cwd: Path) -> tuple[Settings, Demo | None]:
    """Settings and, with --demo, its world. Raises: UsageError."""
    parser = Parser(
        prog="hivemind-tui",
        usage="%(prog)s (--upstream URL | --demo) [setting ...]",
        description="The proxy and its control room. Where standard output is no terminal: the same without a screen.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    demo = parser.add_argument_group("demo")
    demo.add_argument("--demo", action="store_true", help="watch mock agents live through a mock provider's bad day")
    demo.add_argument("--demo-agents", type=int, default=11, metavar="N", help="how many of them [11]")
    demo.add_argument("--seed", type=int, default=2125, metavar="N", help="of the demo's faults and agents [2125]")
    add_flags(parser)
    namespace = parser.parse_args(list(argv))
    settings = from_flags(namespace, environ=environ, cwd=cwd)
    if namespace.demo:
        if not 0 <= namespace.demo_agents <= 1000:
            parser.error(f"--demo-agents {namespace.demo_agents}: must be from 0 to 1000")
        return settings, Demo(namespace.demo_agents, namespace.seed)
    if not settings.upstream:
        raise UsageError("no upstream: say where requests go with --upstream https://api.anthropic.com, or try --demo")
    settings.origins()
    return settings, None


def has_screen() -> bool:
    """Whether there is a terminal to draw on and to read keys from."""
    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "") != "dumb"


def _run(settings: Settings, demo: Demo | None) -> int:
    from hivemind import logs, server  # a wrong setting is told before these are imported, which takes a while

    console = Console(sys.stderr)
    logs.configure(settings.log_level, cast(TextIO, console))
    stuck = False
    try:
        stuck = server.run_loop(_live(settings, demo, console, with_screen=has_screen()))
    finally:
        stuck = not console.close() or stuck
    if stuck:
        # The terminal takes nothing more, and Python would wait for it while it flushes.
        os._exit(0)
    return 0


async def _live(settings: Settings, demo: Demo | None, console: Console, *, with_screen: bool) -> bool:
    """Serve until asked to stop, and drain; answers whether the terminal is stuck. Raises: BindError, UsageError."""
    with stop_on_signals() as stop:
        async with AsyncExitStack() as stack:
            if demo is not None:
                settings = await _enter_demo(settings, demo, stack)
            proxy, served = await _enter_proxy(settings, demo is not None, stack)
            if not with_screen:
                targets = ", ".join(f"{origin.name} {origin.url}" for origin in settings.origins())
                print(f"hivemind-tui: ready on {served.url} -> {targets}", flush=True)
            supervisor = Supervisor(proxy, console, stop, drain_s=settings.drain_s)
            async with AsyncExitStack() as agents:
                if demo is not None:
                    from hivemind_mock.demo import run_demo_agents

                    await agents.enter_async_context(run_demo_agents(served.url, demo.agents, demo.seed))
                    if not with_screen:
                        asyncio.get_running_loop().call_later(_DEMO_WITHOUT_SCREEN_S, stop.ask)
                await supervisor.watch(await _screens(proxy, settings, stack) if with_screen else None)
                snapshot = proxy.snapshot()
            await supervisor.drain()
            if demo is not None and not supervisor.stuck:
                print(closing_table(snapshot), flush=True)
            return supervisor.stuck


async def _enter_demo(settings: Settings, demo: Demo, stack: AsyncExitStack) -> Settings:
    """Start the mock provider; settings that lead to it."""
    from hivemind_mock.demo import bad_day, run_demo_provider

    url = await stack.enter_async_context(run_demo_provider(bad_day(demo.seed)))
    profile = settings.profile or "anthropic"
    return settings.model_copy(update={"upstream": (f"mock={url}",), "profile": profile})


async def _enter_proxy(settings: Settings, any_port: bool, stack: AsyncExitStack) -> tuple[Proxy, Served]:
    """Start and serve the proxy; where its port is taken and any will do, on a free one. Raises: BindError."""
    from hivemind.proxy.app import Proxy
    from hivemind.server import serve

    try:
        proxy = Proxy(settings)
        return proxy, await stack.enter_async_context(serve(proxy, settings))
    except BindError:
        if not any_port:
            raise
    free = settings.model_copy(update={"port": 0})
    proxy = Proxy(free)
    return proxy, await stack.enter_async_context(serve(proxy, free))


async def _screens(proxy: Proxy, settings: Settings, stack: AsyncExitStack) -> MakeScreen:
    """How a screen on the proxy is made; the plotting process outlives the single screen."""
    from .app import ControlRoom  # Textual takes a second to import, and lines don't need it
    from .driver import driver_class
    from .plots.process import PlotProcess

    plots = PlotProcess()
    stack.push_async_callback(plots.aclose)
    driver = driver_class()
    return lambda: ControlRoom(proxy, drain_s=settings.drain_s, plots=plots, driver_class=driver)
