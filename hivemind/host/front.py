"""Who answers a proxy's own pages in its place, where it is one of several workers."""

from __future__ import annotations

from typing import Literal, Protocol

from hivemind.proxy.asgi import Receive, Scope, Send
from hivemind.wire.request_head import RequestPath

Page = Literal["control", "tools"]
"""The control API with `/metrics` and the like, or the MCP server."""


class Front(Protocol):
    """Answers for all workers of one port."""

    async def serve(self, page: Page, scope: Scope, place: RequestPath, receive: Receive, send: Send) -> bool:
        """Answer a request; False: it is to be answered by the proxy itself."""
        ...

    async def aclose(self) -> None:
        """Answer no more."""
        ...
