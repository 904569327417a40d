"""What a browser wants to be told before a page of another origin may use the answer (CORS), for origins that a setting
lets in: https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from __future__ import annotations

from collections.abc import Mapping

from hivemind.proxy.response_writer import Message, Send

Fields = Mapping[bytes, bytes]
Headers = list[tuple[bytes, bytes]]

_KEPT_S = b"600"
"""For how long a browser needn't ask again."""
_OURS = (b"access-control-allow-origin", b"access-control-expose-headers", b"access-control-allow-credentials")


def is_preflight(method: str, headers: Fields) -> bool:
    """Whether a browser asks what a page may send, before that page may send it."""
    return method == "OPTIONS" and b"access-control-request-method" in headers


def permission(headers: Fields) -> Headers:
    """The answer to that: whatever it wants. The key and the token are what guards the upstream and the proxy."""
    given: Headers = [
        (b"access-control-allow-origin", headers[b"origin"]),
        (b"access-control-allow-methods", headers[b"access-control-request-method"]),
        (b"access-control-max-age", _KEPT_S),
        (b"vary", b"origin, access-control-request-method, access-control-request-headers"),
    ]
    wanted = headers.get(b"access-control-request-headers")
    if wanted:
        given.append((b"access-control-allow-headers", wanted))
    if b"access-control-request-private-network" in headers:
        given.append((b"access-control-allow-private-network", b"true"))
    return given


def shared_with(origin: bytes, send: Send) -> Send:
    """Sends what a page of that origin may read, whatever the upstream says to that."""
    ours: Headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"*"),
        (b"vary", b"origin"),
    ]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*(pair for pair in message["headers"] if pair[0] not in _OURS), *ours]}
        await send(message)

    return sent
