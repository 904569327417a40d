"""The proxy on a socket: bind, serve, report readiness, drain on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import uvicorn

from hivemind import logs
from hivemind.console import Console
from hivemind.host.listening import BACKLOG, bind, print_ready, ready_line, url_of
from hivemind.host.start_lock import ending_when_idle
from hivemind.proxy import file_limit
from hivemind.store.token_file import ControlKey, announced, state_dir

if TYPE_CHECKING:
    from hivemind.host.proxy import Proxy
    from hivemind.settings import Settings

_GC_THRESHOLDS = (20_000, 10, 10)
"""Traffic creates few cycles and many objects that live for a request; a full collection delays every stream."""
_KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so that they close them, and no request hits a closing one."""
_SWITCH_S = 0.0001
"""A thread waits so long before it claims the interpreter's lock. While one waits, each callback of uvloop, which gives
the lock up and takes it again, wakes it in vain: with Python's 5 ms that took a tenth of a request's processor time."""
_STOP_S = 1
"""Grace for connections still open once the proxy has drained."""

OnReady = Callable[[str, ControlKey | None], object]
"""Takes the URL and the key of the control API, if there is one."""


class EmbeddedServer(uvicorn.Server):
    """uvicorn inside a running event loop: leaves signals to the program, and waits rather than polls."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()
        """Set once it accepts connections, or failed to."""
        self._stop = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until :meth:`stop`."""
        try:
            await super().serve(sockets)
        finally:
            self.begun.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._stop.wait()

    def stop(self) -> None:
        """Accept nothing more and end :meth:`serve`."""
        self.should_exit = True
        self._stop.set()


@contextlib.asynccontextmanager
async def serve(
    proxy: Proxy, settings: Settings, *, durable: bool = True, journals: Path | None = None
) -> AsyncIterator[None]:
    """Start the proxy and serve it at its `address` in the running loop; leaving the context stops both.

    While it is served, its control token is in a file. `durable` keeps usage, decisions and tasks in the same folder,
    for the next proxy too, and writes a journal; else one is written in the folder `journals`, if given. Streams still
    in flight at the end are cut, so call :meth:`Proxy.drain` first to let them finish.

    Raises: BindError; UsageError: the kept state can't be used.
    """
    from hivemind.host.proxy import Kept
    from hivemind.journal.files import folder_in  # imported late, so that a wrong setting is reported sooner
    from hivemind.store.store import opened

    logs.quiet_uvicorn()
    sys.setswitchinterval(_SWITCH_S)
    file_limit.raise_limit()
    file_limit.log_refused_accepts_briefly()
    sockets = bind(settings.host, settings.port)
    try:
        port = sockets[0].getsockname()[1]
        proxy.address = url_of(settings.host, port)
        chosen = settings.control_token.reveal() if settings.control_token else None
        kept = opened(settings.state_dir, settings.port, time.time()) if durable else contextlib.nullcontext()
        with kept as store:
            if durable and settings.journal.enabled:
                with contextlib.suppress(OSError):  # logged for the store already
                    journals = folder_in(state_dir(settings.state_dir))
            await proxy.start(Kept(store, journals))
            proxy.watch.watch_loop()
            try:
                with announced(chosen, settings.state_dir, proxy.address, port) as proxy.control_key:
                    async with _listening(EmbeddedServer(_config(proxy)), sockets):
                        yield
            finally:
                await proxy.aclose()
    finally:
        for sock in sockets:
            sock.close()


@contextlib.asynccontextmanager
async def _listening(server: EmbeddedServer, sockets: list[socket.socket]) -> AsyncIterator[None]:
    task = asyncio.create_task(server.serve(sockets), name="hivemind-server")
    try:
        await server.begun.wait()
        if server.started:
            yield
    finally:
        server.stop()
        await task


def _config(proxy: Proxy) -> uvicorn.Config:
    from hivemind.proxy.server_protocol import ClientProtocol

    return uvicorn.Config(
        proxy.app,
        http=ClientProtocol,
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,
    )


async def run(settings: Settings, settings_file: Path | None = None, *, on_ready: OnReady | None = None) -> int:
    """`hivemind proxy`: serve until SIGINT or SIGTERM, or until it is idle for as long as the settings say, then drain.
    Returns the exit code.

    A second signal isn't caught, so it ends the process at once, whatever the loop is doing. Settings are saved
    in `settings_file`, where there is one. `on_ready` is called once it serves, with its URL and control key;
    without it a line is printed. In the end a summary is printed.

    Raises: BindError, UsageError: before anything was served.
    """
    from hivemind.host.proxy import Proxy  # slow to import, and not needed to report a wrong setting
    from hivemind.host.summary import print_at_end
    from hivemind.prices import Prices

    settings.origins()
    proxy = Proxy(settings, prices=Prices(), settings_file=settings_file, tell=logs.log_line)
    stop = _stop_signal()
    with contextlib.ExitStack() as idle:  # left last, so that no starter finds a proxy that ends
        async with _log_thread(settings) as console:
            async with serve(proxy, settings):
                # Everything allocated so far stays, so the collector needn't traverse it while agents wait.
                gc.collect()
                gc.freeze()
                gc.set_threshold(*_GC_THRESHOLDS)
                if on_ready is None:
                    print_ready(ready_line(proxy.address, settings))
                else:
                    if proxy.control_key is None:
                        # It can't be noted in a file, and only the starter needs it.
                        proxy.control_key = ControlKey(secrets.token_hex(8), secrets.token_urlsafe(32))
                    on_ready(proxy.address, proxy.control_key)
                if settings.idle_exit_s:
                    idle.enter_context(ending_when_idle(proxy, settings, stop))
                await stop.wait()
                await proxy.drain(settings.drain_s)
                ended = proxy.snapshot()
            print_at_end(console, ended)
    return 0


@contextlib.asynccontextmanager
async def _log_thread(settings: Settings) -> AsyncIterator[Console]:
    """Write log lines in a thread: a pipe that isn't read must not stop the traffic."""
    console = Console(sys.stderr)
    logs.configure(settings.log_level, cast(TextIO, console))
    try:
        yield console
    finally:
        await asyncio.to_thread(console.close)


def _stop_signal() -> asyncio.Event:
    """Return an event that the first SIGINT or SIGTERM sets, which also restores both handlers."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)

    def stopped() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in signals:
        loop.add_signal_handler(number, stopped)
    return stop
