"""What tests say to an upstream."""

from __future__ import annotations

from hivemind.upstream.base import Upstream, UpstreamRequest, UpstreamResponse

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def post(upstream: Upstream, body: bytes = b"{}", *, retry_stale: bool = True) -> UpstreamResponse:
    """Send the usual request."""
    return await upstream.send(
        UpstreamRequest(b"POST", b"/v1/messages", [(b"x-a", b"1")], body, retry_stale=retry_stale)
    )


async def whole(response: UpstreamResponse) -> bytes:
    """Read a body to its end."""
    body = b""
    while piece := await response.read():
        body += piece
    return body
