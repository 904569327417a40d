"""The proxy's own applications on the socket of the traffic: the control API, and the tools for agents."""

from __future__ import annotations

from typing import Protocol

from hivemind.control.api import ControlledProxy
from hivemind.control.app import control_app
from hivemind.control.guard import failure, guards_itself, is_own, may_scrape
from hivemind.proxy.asgi import Receive, Scope, Send
from hivemind.proxy.data_plane import Fields, LocalApp
from hivemind.tools.access import McpProxy
from hivemind.tools.http import ToolsEndpoint, is_tools_path
from hivemind.wire.request_head import RequestPath, RequestRefused


class Operated(ControlledProxy, McpProxy, Protocol):
    """The proxy, as far as its own applications are concerned."""


class LocalApps:
    """Both applications of one proxy. `token` is the agents' token, where one is required."""

    def __init__(self, proxy: Operated, *, token: bytes | None, tools_enabled: bool) -> None:
        self._proxy = proxy
        self._token = token
        self._control_app = control_app(proxy)
        self._endpoint = ToolsEndpoint(proxy, enabled=tools_enabled)
        self._control = LocalApp(self._serve_control, self._is_open, _deny)
        # The MCP server checks the control token itself.
        self._tools = LocalApp(self._serve_tools, lambda place, headers: True, _deny)

    def find(self, method: str, place: RequestPath) -> LocalApp | None:
        """Return the application that answers a request; None where it goes upstream."""
        if place.upstream is None:
            if is_tools_path(place.path):
                return self._tools
            if place.agent is None and is_own(method, place.path):
                return self._control
        return None

    async def aclose(self) -> None:
        """End the tools' requests, and accept no more."""
        await self._endpoint.aclose()

    def _is_open(self, place: RequestPath, headers: Fields) -> bool:
        """Return whether a path of the control API is guarded by another token, or by none."""
        authorization = headers.get(b"authorization", b"")
        return guards_itself(place.path) or (
            self._token is not None and may_scrape(place.path, authorization, self._token, self._proxy.control_key)
        )

    async def _serve_control(self, scope: Scope, place: RequestPath, receive: Receive, send: Send) -> None:
        await self._control_app({**scope, "path": place.path, "raw_path": place.raw_path}, receive, send)

    async def _serve_tools(self, scope: Scope, place: RequestPath, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, place.path, place.agent, receive, send)


async def _deny(refusal: RequestRefused, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a refusal in the form of the control API's errors."""
    await failure(refusal.status, str(refusal))({**scope}, receive, send)
