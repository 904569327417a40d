"""Requests that cost nothing (lists of models, token counts, files) pass without a ticket."""

from __future__ import annotations

from hivemind.proxy.response_writer import ResponseWriter
from hivemind.upstream.base import UpstreamError, UpstreamTimeout
from hivemind.wire.call import Call
from hivemind.wire.headers import for_client


async def relay(call: Call, writer: ResponseWriter) -> None:
    """Send a call once and pass the answer on byte for byte; a truncated one is cut off where it is."""
    try:
        response = await call.route.upstream.send(
            call.method, call.target, call.headers, call.body, retry_stale=call.method in (b"GET", b"HEAD")
        )
    except UpstreamError as error:
        status = 504 if isinstance(error, UpstreamTimeout) else 502
        headers, body = call.dialect.refusal(status, "upstream_unreachable", f"HiveMind: {error}", None)
        await writer.answer(status, headers, body)
        return
    try:
        await writer.start(response.status, for_client(response.headers))
        while data := await response.read():
            await writer.write(data)
        await writer.finish()
    except UpstreamError:
        return
    finally:
        response.close()
