"""Opening the client for an upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivemind.upstream.base import Timeouts, Upstream
from hivemind.upstream.native import NativeUpstream, client_context
from hivemind.upstream.origin import Origin
from hivemind.upstream.outbox import Outbox

if TYPE_CHECKING:
    import httpx  # slow to import, and rarely needed


def open_upstream(
    url: str,
    *,
    via: str | None = None,
    ca_file: str | None = None,
    timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
    transport: httpx.AsyncBaseTransport | None = None,
    max_idle: int = 256,
    outbox: Outbox | None = None,
) -> Upstream:
    """Return a client for the origin of `url`; its path is ignored. Nothing is connected yet.

    `via` is the URL of an outbound proxy (`http`, `https`, `socks5` or `socks5h`, with credentials where it needs
    them), `ca_file` a file of certificates in PEM to trust besides the usual ones. `transport` replaces the network. At
    most `max_idle` connections are kept for later requests. `outbox` gathers the writes of a turn of the event loop.

    Raises: ValueError, in one line: a URL or file can't be used.
    """
    origin = Origin.parse(url)
    if transport is not None:
        from hivemind.upstream.transport import TransportUpstream

        return TransportUpstream(origin, transport, timeouts=timeouts, dials=False)
    context = client_context(ca_file) if origin.tls or via is not None or ca_file is not None else None
    if via is None or context is None:
        return NativeUpstream(origin, context=context, timeouts=timeouts, max_idle=max_idle, outbox=outbox)
    from hivemind.upstream.transport import upstream_via_proxy

    return upstream_via_proxy(origin, via, ca_file, context, timeouts, max_idle)
