"""CORS for the origins that a setting allows: https://fetch.spec.whatwg.org/#http-cors-protocol"""

from __future__ import annotations

from collections.abc import Mapping

from hivemind.proxy.response_writer import Message, Send

Fields = Mapping[bytes, bytes]
Headers = list[tuple[bytes, bytes]]

_MAX_AGE_S = b"600"
"""How long a browser may cache a preflight's answer."""
_OURS = (b"access-control-allow-origin", b"access-control-expose-headers", b"access-control-allow-credentials")


def is_preflight(method: str, headers: Fields) -> bool:
    """Return whether a browser asks what a page may send."""
    return method == "OPTIONS" and b"access-control-request-method" in headers


def preflight_headers(headers: Fields) -> Headers:
    """Return a preflight's answer: all is allowed, because credentials and tokens guard the upstream and the proxy."""
    given: Headers = [
        (b"access-control-allow-origin", headers[b"origin"]),
        (b"access-control-allow-methods", headers[b"access-control-request-method"]),
        (b"access-control-max-age", _MAX_AGE_S),
        (b"vary", b"origin, access-control-request-method, access-control-request-headers"),
    ]
    wanted = headers.get(b"access-control-request-headers")
    if wanted:
        given.append((b"access-control-allow-headers", wanted))
    if b"access-control-request-private-network" in headers:
        given.append((b"access-control-allow-private-network", b"true"))
    return given


def with_cors(origin: bytes, send: Send) -> Send:
    """Return a `send` that lets a page of that origin read the answer, whatever the upstream's own CORS headers say."""
    ours: Headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"*"),
        (b"vary", b"origin"),
    ]

    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*(pair for pair in message["headers"] if pair[0] not in _OURS), *ours]}
        await send(message)

    return send_with_cors
