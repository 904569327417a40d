"""The control API's side of HTTP: authentication by its token, and responses.

Requests from web pages are refused earlier (:mod:`hivemind.proxy.access`). Responses are JSON, compressed if the client
accepts it, and never cached.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from hivemind.api_types import OFF, PREFIX, ErrorBody
from hivemind.control import proof
from hivemind.control.controlled import ControlledProxy
from hivemind.control.rights import Denied
from hivemind.packing import zstd
from hivemind.store.token_file import ControlKey

if TYPE_CHECKING:  # Starlette is imported when the control API is first used
    from starlette.types import ASGIApp, Receive, Scope, Send

METRICS = "/metrics"
NO_PAGE = "there is no such page"
PRINCIPAL = "hivemind.principal"
"""Key of whose a request is, in its scope."""
_SMALL = 1024
"""Shorter bodies aren't compressed."""
_MISSING = "send the control token, as in Authorization: Bearer TOKEN; this proxy notes it in its state directory"
_WRONG = (
    "that is not this proxy's control token (it notes a new one in its state directory at every start), nor the token"
    " of a run that goes on"
)


def is_own(method: str, path: str) -> bool:
    """Return whether the proxy answers this path itself, rather than an upstream."""
    return path.startswith("/_") or (path == METRICS and method in ("GET", "HEAD"))


def guards_itself(path: str) -> bool:
    """Return whether a path needs no agents' token: the control API has its own token, health and the proof none."""
    return path in ("/_health", proof.PATH) or path.startswith(PREFIX + "/")


def may_scrape(path: str, authorization: bytes, agents_token: bytes, key: ControlKey | None) -> bool:
    """Return whether the path is that of the metrics and the header holds the agents' or the control token as a Bearer,
    which is what scrapers can send."""
    if path != METRICS:
        return False
    scheme, _, shown = authorization.strip().partition(b" ")
    tokens = (agents_token,) if key is None else (agents_token, key.token.encode())
    return scheme.lower() == b"bearer" and any(hmac.compare_digest(shown.strip(), token) for token in tokens)


class ControlGuard:
    """ASGI middleware that refuses requests without the control token or a run's, and notes whose they are."""

    def __init__(self, app: ASGIApp, proxy: ControlledProxy) -> None:
        self._app = app
        self._proxy = proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, shown = authorization.decode("latin-1").partition(" ")
        app, key = self._app, self._proxy.control_key
        if key is None:
            app = failure(403, OFF)
        elif scheme.lower() != "bearer" or not shown.strip():
            app = failure(401, _MISSING, {"www-authenticate": "Bearer"})
        else:
            try:
                principal = await self._proxy.processes.runs.principal(shown.strip(), key.token, scope)
            except Denied as error:
                self._proxy.denied("", f"a request to {scope['path']}", str(error))
                app = failure(403, str(error))
            else:
                scope[PRINCIPAL] = principal
                if principal is None:
                    app = failure(401, _WRONG, {"www-authenticate": "Bearer"})
        await app(scope, receive, send)


class Reply(msgspec.Struct, frozen=True):
    """An ASGI application that sends one response of JSON."""

    data: bytes
    headers: Mapping[str, str]
    status: int = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = {"content-type": "application/json", "content-length": str(len(self.data)), "cache-control": "no-store"}
        headers = [(name.encode(), value.encode("latin-1")) for name, value in (own | dict(self.headers)).items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.data})


def failure(status: int, text: str, headers: Mapping[str, str] | None = None, *, bad_input: bool = False) -> Reply:
    """Return an error response."""
    return Reply(msgspec.json.encode(ErrorBody(text, bad_input)), headers or {}, status)


def reply(data: bytes, headers: Mapping[str, str]) -> Reply:
    """Return a response of encoded JSON."""
    if len(data) < _SMALL or "zstd" not in headers.get("accept-encoding", ""):
        return Reply(data, {})
    # A snapshot of 200 agents takes 0.1 ms and shrinks to an eighth.
    return Reply(zstd.compress(data, level=1), {"content-encoding": "zstd", "vary": "accept-encoding"})
