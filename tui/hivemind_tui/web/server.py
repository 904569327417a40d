"""Serves attached control rooms to browsers: textual-serve's server behind a token and the proxy's checks of pages.

textual-serve lets everyone in, prints a logo, configures logging and has its page load a font from elsewhere; here it
gives the terminal in the page and the processes behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import platform
import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server

from hivemind.console import print_note
from hivemind.control.discovery import local_url
from hivemind.host.listening import bind
from hivemind.proxy.access import AccessPolicy, own_names
from hivemind.upstream.origin import is_loopback
from hivemind_tui.program.supervisor import stop_on_signals

ROOMS = 16
"""Most tabs at once; each is a process of some 60 MB."""
_LARGEST = 1000
"""Columns and rows of a room."""
_END_WITHIN_S = 2.0
_HEARTBEAT_S = 15.0
_PAGE = Template(files(__package__).joinpath("page.html").read_text("utf-8"))
_SCRIPT = files(__package__).joinpath("page.js").read_text("utf-8")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_DENIALS = {
    "foreign_host": "this isn't a name of hivemind web's; if it is one, start it with --allowed-host NAME\n",
    "foreign_page": "a page of another site may not use this control room\n",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Room(AppService):
    """The process behind one tab."""

    async def stop(self) -> None:
        """Ask it to end, and see to it that it does, also where the server waits no longer."""
        process = self._process
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_WITHIN_S):
                    await super().stop()
                    if process is not None:
                        await process.wait()
        finally:
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()


class WebServer(Server):
    """Serves one command's screens to browsers that have shown the token."""

    def __init__(self, command: str, title: str, policy: AccessPolicy) -> None:
        super().__init__(command, title=title)
        self.token = secrets.token_urlsafe(32)
        self.cookie = ""
        """Its name, which has the port in it: browsers send the cookies of a host to all its ports."""
        self._kept = secrets.token_urlsafe(32)
        """Value of the cookie; another secret than the one in the address, which stays in a browser's history."""
        self._policy = policy
        self._rooms: set[asyncio.Task[object]] = set()

    async def application(self, port: int) -> web.Application:
        """Return the application, for that port."""
        self.cookie = f"hivemind-web-{port}"
        app = await self._make_app()

        @web.middleware
        async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app.middlewares.append(guarded)
        app.add_routes([web.get("/page.js", _script)])
        app.on_response_prepare.append(_with_headers)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing."""

    async def on_shutdown(self, app: web.Application) -> None:
        """End the rooms."""
        for room in self._rooms:
            room.cancel()
        if self._rooms:
            await asyncio.wait(self._rooms, timeout=_END_WITHIN_S)

    async def handle_index(self, request: web.Request) -> web.Response:
        """Serve the page, whose addresses are those by which the browser got here."""
        scheme = "wss" if request.secure else "ws"
        text = _PAGE.substitute(title=escape(self.title), socket=escape(f"{scheme}://{request.host}/ws"))
        return web.Response(text=text, content_type="text/html")

    async def handle_websocket(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        """Run a room for as long as its tab is open."""
        if len(self._rooms) >= ROOMS:
            return web.Response(status=503, text=f"{ROOMS} rooms are open; close one first\n")
        size = [request.query.get(name, "80") for name in ("width", "height")]
        if not all(each.isdecimal() and 1 <= int(each[:9]) <= _LARGEST for each in size):
            return web.Response(status=400, text=f"a room has from 1 to {_LARGEST} columns and rows\n")
        tab = web.WebSocketResponse(heartbeat=_HEARTBEAT_S)
        await tab.prepare(request)
        room = Room(
            self.command,
            write_bytes=tab.send_bytes,
            write_str=tab.send_str,
            close=partial(_closed, tab),
            download_manager=self.download_manager,
        )
        task = asyncio.current_task()
        assert task is not None
        self._rooms.add(task)
        try:
            await room.start(int(size[0]), int(size[1]))
            await self._process_messages(tab, room)
        except asyncio.CancelledError:
            await tab.close()
        finally:
            await room.stop()
            self._rooms.discard(task)
        return tab

    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        fields = {name.lower().encode(): value.encode("latin-1", "replace") for name, value in request.headers.items()}
        denied = self._policy.denial(fields, own=False)
        if denied is not None:
            return web.Response(status=denied.status, text=_DENIALS.get(denied.reason, f"{denied}\n"))
        if request.path == "/" and _same(request.query.get("token", ""), self.token):
            response = web.Response(status=303, headers={"Location": "/"})
            # Not strict, so that the address may be clicked in a page, such as that of an editor.
            response.set_cookie(self.cookie, self._kept, httponly=True, samesite="Lax", secure=request.secure)
            return response
        if not _same(request.cookies.get(self.cookie, ""), self._kept):
            text = "open the address that hivemind web has printed: it holds a token, which this browser hasn't shown\n"
            return web.Response(status=401, text=text)
        return await handler(request)


async def _closed(tab: web.WebSocketResponse) -> None:
    await tab.close()


async def _script(_request: web.Request) -> web.Response:
    return web.Response(text=_SCRIPT, content_type="text/javascript")


async def _with_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def command_of(url: str, token_file: Path | None) -> str:
    """Return the line for a shell that runs a room of the proxy at this address."""
    where = ["--attach", url, *([] if token_file is None else ["--token-file", str(token_file)])]
    return shlex.join(["exec", sys.executable, "-P", "-m", "hivemind_tui.web.room", *where])


async def serve(url: str, token_file: Path | None, host: str, port: int, allowed: Sequence[str]) -> None:
    """Serve rooms of the proxy at `url` until a signal comes. Raises: BindError."""
    logging.getLogger("textual-serve").setLevel(logging.ERROR)
    with stop_on_signals() as stop:
        sockets = bind(host, port)
        port = sockets[0].getsockname()[1]
        policy = AccessPolicy((*own_names(host, platform.node()), *allowed), ())
        server = WebServer(command_of(url, token_file), f"HiveMind {url}", policy)
        runner = web.AppRunner(await server.application(port), access_log=None, shutdown_timeout=_END_WITHIN_S)
        await runner.setup()
        try:
            for sock in sockets:
                await web.SockSite(runner, sock).start()
            address = local_url(host, port)
            print(f"hivemind web: the control room of {url} is at {address}/?token={server.token}", flush=True)
            if not is_loopback(address):
                print_note("whoever reads along on the network sees the token: put a server with TLS before it")
            await stop.wait()
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await runner.cleanup()
