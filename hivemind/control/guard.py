"""The control API's side of HTTP: authentication by its token, and responses.

Requests from web pages are refused earlier (:mod:`hivemind.proxy.access`). Responses are JSON, compressed if the client
accepts it, and never cached.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Callable, Mapping

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hivemind.api_types import PREFIX, Failure
from hivemind.store.token_file import ControlKey

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

METRICS = "/metrics"
NO_PAGE = "there is no such page"
_SMALL = 1024
"""Shorter bodies aren't compressed."""
_OFF = "the control API is off: this proxy has no control token; set HIVEMIND_CONTROL_TOKEN, or --state-dir to a folder"
_MISSING = "send the control token, as in Authorization: Bearer TOKEN; this proxy notes it in its state directory"
_WRONG = "that is not this proxy's control token; it notes a new one in its state directory at every start"


def is_own(method: str, path: str) -> bool:
    """Return whether the proxy answers this path itself, rather than an upstream."""
    return path.startswith("/_") or (path == METRICS and method in ("GET", "HEAD"))


def guards_itself(path: str) -> bool:
    """Return whether a path needs no agents' token: the control API has its own token, and health is public."""
    return path == "/_health" or path.startswith(PREFIX + "/")


def may_scrape(path: str, authorization: bytes, agents_token: bytes, key: ControlKey | None) -> bool:
    """Return whether the path is that of the metrics and the header holds the agents' or the control token as a Bearer,
    which is what scrapers can send."""
    if path != METRICS:
        return False
    scheme, _, shown = authorization.strip().partition(b" ")
    tokens = (agents_token,) if key is None else (agents_token, key.token.encode())
    return scheme.lower() == b"bearer" and any(hmac.compare_digest(shown.strip(), token) for token in tokens)


class ControlGuard:
    """ASGI middleware that refuses requests without the control token."""

    def __init__(self, app: ASGIApp, key: Callable[[], ControlKey | None]) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = self._key()
        scheme, _, shown = Headers(scope=scope).get("authorization", "").partition(" ")
        app = self._app
        if key is None:
            app = failure(403, _OFF)
        elif scheme.lower() != "bearer" or not shown.strip():
            app = failure(401, _MISSING, {"www-authenticate": "Bearer"})
        elif not hmac.compare_digest(shown.strip().encode("latin-1"), key.token.encode()):
            app = failure(401, _WRONG, {"www-authenticate": "Bearer"})
        await app(scope, receive, send)


def failure(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error response."""
    return _json(msgspec.json.encode(Failure(text)), headers or {}, status)


def reply(data: bytes, headers: Headers) -> Response:
    """Return a response of encoded JSON."""
    if len(data) < _SMALL or "zstd" not in headers.get("accept-encoding", ""):
        return _json(data, {})
    # A snapshot of 200 agents takes 0.1 ms and shrinks to an eighth.
    data = zstd.compress(data, level=1)
    return _json(data, {"content-encoding": "zstd", "vary": "accept-encoding"})


def _json(data: bytes, headers: Mapping[str, str], status: int = 200) -> Response:
    return Response(data, status, {"cache-control": "no-store", **headers}, media_type="application/json")
