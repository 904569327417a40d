"""`/mcp` on the proxy's socket: guarded like the control API, and loaded on the first request.

A thread imports the SDK, which takes most of a second, so that no agent's request waits for it.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Mapping, MutableMapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hivemind.agent_names import normalised
from hivemind.control.controlled import ControlledProxy
from hivemind.control.guard import PRINCIPAL, ControlGuard, failure
from hivemind.control.rights import Denied
from hivemind.control.run_access import RunAccess
from hivemind.proxy.asgi import read_body
from hivemind.redaction.text import redact
from hivemind.tools.access import Caller
from hivemind.upstream.base import describe
from hivemind.waiting import cancel_all
from hivemind.wire.identity import claimed_name
from hivemind.wire.request_head import fields

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

BODY_LIMIT = 1 << 20
PATHS = ("/mcp", "/mcp/")
_DISCOVERY = ("/.well-known/oauth-", "/.well-known/openid-configuration")
"""Where clients look for a login; there is none, and the upstream's must not answer."""
CALLER = "hivemind.caller"
"""Key of the caller in a request's scope."""
_OFF = "the MCP server is switched off (mcp.enabled)"
MISSING = "the MCP server needs its library: pip install 'hivemind-tui[mcp]'"
_NO_LOGIN = "there is no login here: /mcp wants the proxy's control token or a run's, as in Authorization: Bearer TOKEN"
_ENDING = "the proxy is shutting down"
_ONLY_POST = "this MCP server keeps no sessions and has no stream of its own: use POST"

_log = logging.getLogger(__name__)


def is_tools_path(path: str) -> bool:
    """Return whether the MCP endpoint answers this path."""
    return path in PATHS or path.startswith(_DISCOVERY)


def is_installed() -> bool:
    """Return whether the library is there that speaks MCP."""
    return find_spec("mcp") is not None


class ToolsEndpoint:
    """The MCP endpoint of one proxy, on its event loop."""

    def __init__(self, proxy: ControlledProxy, *, enabled: bool) -> None:
        self._proxy = proxy
        self._enabled = enabled
        self._guarded = ControlGuard(self._admitted, proxy)
        self._server: asyncio.Task[None] | None = None
        self._handler: asyncio.Future[ASGIApp] | None = None
        self._stop = asyncio.Event()
        self._busy: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Mapping[str, Any], path: str, agent: str | None, receive: Any, send: Any) -> None:
        """Answer a request to one of these paths; `agent` is the name in the path before it, if any."""
        inner = {**scope, "path": path}
        if not self._enabled:
            await failure(404, _OFF)(inner, receive, send)
        elif not is_installed():
            await failure(404, MISSING)(inner, receive, send)
        elif path in PATHS:
            inner[CALLER] = agent
            await self._guarded(inner, receive, send)
        else:
            await failure(404, _NO_LOGIN)(inner, receive, send)

    async def aclose(self) -> None:
        """Cancel the calls in progress, and answer no more."""
        self._stop.set()
        await cancel_all(self._busy)
        if self._server is not None:
            await asyncio.wait((self._server,))

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await failure(405, _ONLY_POST, {"allow": "POST"})(scope, receive, send)
            return
        try:
            named = claimed_name(fields(scope["headers"]), scope[CALLER])
            name = self._proxy.engine.spelling(normalised(named)) if named else None
            run = scope[PRINCIPAL].run
            if run is not None and name is not None and not RunAccess(self._proxy, run).owns(name):
                raise Denied(f"the token that was shown is that of {run}'s run, so the caller can't be {name}")
            scope[CALLER] = Caller(name or run, run)
        except Denied as error:
            self._proxy.denied(run, f"call tools as {name}", str(error))
            await failure(403, str(error))(scope, receive, send)
            return
        except ValueError as error:
            await failure(400, str(error))(scope, receive, send)
            return
        if self._stop.is_set():
            await failure(503, _ENDING)(scope, receive, send)
            return
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            await self._answer(scope, receive, send)
        finally:
            self._busy.discard(task)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        # Read here, because the SDK logs a client that leaves halfway as an error.
        body = await read_body(receive, BODY_LIMIT)
        if body is None:
            return
        if len(body) > BODY_LIMIT:
            await failure(413, f"the body is larger than {BODY_LIMIT >> 10} KiB")(scope, receive, send)
            return
        whole = [{"type": "http.request", "body": body, "more_body": False}]

        async def reread() -> MutableMapping[str, Any]:
            return whole.pop() if whole else await receive()

        try:
            await (await self._loaded())(scope, reread, noted)
        except Exception as error:
            _log.warning("the MCP server failed: %s: %s", type(error).__name__, redact(str(error)))
            if not begun:
                status, text = 500, "the MCP server failed; the proxy's log says more"
                if isinstance(error, OSError):  # as where no file is left for what it imports
                    status, text = 503, describe(error)
                await failure(status, text)(scope, receive, send)

    async def _loaded(self) -> ASGIApp:
        """Return the handler when it is loaded; after a failure the next request tries again."""
        if self._handler is None or (self._handler.done() and self._handler.exception() is not None):
            self._handler = asyncio.get_running_loop().create_future()
            self._server = asyncio.create_task(self._serve(self._handler), name="serve MCP")
        return await asyncio.shield(self._handler)

    async def _serve(self, handler: asyncio.Future[ASGIApp]) -> None:
        """Load the SDK, and keep its session manager running until the proxy ends."""
        try:
            module = await asyncio.to_thread(importlib.import_module, "hivemind.tools.server")
            manager = await asyncio.to_thread(module.http_manager, self._proxy)
            async with manager.run():
                handler.set_result(manager.handle_request)
                await self._stop.wait()
        except Exception as error:
            if handler.done():
                _log.warning("the MCP server ended: %s: %s", type(error).__name__, error)
            else:
                handler.set_exception(error)
                handler.exception()  # mark it as retrieved: the waiting clients may have left
