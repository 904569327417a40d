"""The proxy's own applications on the socket of the traffic: the control API, and the tools for agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from hivemind.control.api import ControlledProxy
from hivemind.control.app import control_app
from hivemind.control.guard import guards_itself, is_own, may_scrape
from hivemind.control.responses import failure
from hivemind.proxy.response_writer import Receive, Send
from hivemind.tools.http import McpProxy, ToolsEndpoint, is_tools_path
from hivemind.wire.refusal import RequestRefused
from hivemind.wire.target import RequestPath

Scope = Mapping[str, Any]
Fields = Mapping[bytes, bytes]


class Operated(ControlledProxy, McpProxy, Protocol):
    """The proxy, as far as its own applications are concerned."""


class _JsonErrors:
    """Denies requests in the form of the control API's errors."""

    async def deny(self, refusal: RequestRefused, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request from a page or under a host name that may not use the proxy."""
        await failure(refusal.status, str(refusal))({**scope}, receive, send)


class _Control(_JsonErrors):
    """Health, statistics, metrics and the control API. `token` is the agents' token, where one is required."""

    def __init__(self, proxy: Operated, token: bytes | None) -> None:
        self._proxy = proxy
        self._token = token
        self._app = control_app(proxy)

    def admits(self, place: RequestPath, headers: Fields) -> bool:
        """Return whether a path is guarded by another token, or by none."""
        authorization = headers.get(b"authorization", b"")
        return guards_itself(place.path) or (
            self._token is not None and may_scrape(place.path, authorization, self._token, self._proxy.control_key)
        )

    async def __call__(self, scope: Scope, place: RequestPath, receive: Receive, send: Send) -> None:
        await self._app({**scope, "path": place.path, "raw_path": place.raw_path}, receive, send)


class _Tools(_JsonErrors):
    """The MCP server, which checks the control token itself."""

    def __init__(self, endpoint: ToolsEndpoint) -> None:
        self._endpoint = endpoint

    def admits(self, place: RequestPath, headers: Fields) -> bool:
        """Return True: no path needs the agents' token."""
        return True

    async def __call__(self, scope: Scope, place: RequestPath, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, place.path, place.agent, receive, send)


class LocalApps:
    """Both applications of one proxy."""

    def __init__(self, proxy: Operated, *, token: bytes | None, tools_enabled: bool) -> None:
        self._control = _Control(proxy, token)
        self._endpoint = ToolsEndpoint(proxy, enabled=tools_enabled)
        self._tools = _Tools(self._endpoint)

    def find(self, method: str, place: RequestPath) -> _Control | _Tools | None:
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
