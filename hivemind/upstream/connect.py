"""Choosing the client for an upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivemind.redaction.values import credentials_of_url
from hivemind.upstream.base import Timeouts, Upstream
from hivemind.upstream.native import NativeUpstream
from hivemind.upstream.origin import Origin
from hivemind.upstream.tls import client_context

if TYPE_CHECKING:
    import httpx  # takes as long as all the rest of the proxy, and most need none of it


def open_upstream(
    url: str,
    *,
    via: str | None = None,
    ca_file: str | None = None,
    timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
    transport: httpx.AsyncBaseTransport | None = None,
    max_idle: int = 256,
) -> Upstream:
    """A client for the origin of `url`; its path is left aside. Nothing is connected yet.

    `via` names a proxy to go through (`http`, `https`, `socks5` or `socks5h`, with credentials where it wants some),
    `ca_file` certificates in PEM to trust besides the usual ones. `transport` takes the place of the network. At most
    `max_idle` connections are kept for later requests.

    Raises: ValueError, in one line, for a URL or file that won't do.
    """
    origin = Origin.parse(url)
    if transport is not None:
        return _over(origin, transport, timeouts, dials=False)
    context = client_context(ca_file) if origin.tls or via is not None or ca_file is not None else None
    if via is None or context is None:
        return NativeUpstream(origin, context=context, timeouts=timeouts, max_idle=max_idle)
    from hivemind.upstream.via_proxy import proxied_transport

    transport = proxied_transport(via, ca_file, context, max_idle)
    return _over(origin, transport, timeouts, dials=True, secrets=credentials_of_url(via))


def _over(
    origin: Origin,
    transport: httpx.AsyncBaseTransport,
    timeouts: Timeouts,
    *,
    dials: bool,
    secrets: tuple[str, ...] = (),
) -> Upstream:
    from hivemind.upstream.transport import TransportUpstream

    return TransportUpstream(origin, transport, timeouts=timeouts, dials=dials, secrets=secrets)
