"""Protection from web pages, by headers that no page can forge: `Host`, `Origin` and `Sec-Fetch-Site`; and CORS.

Every page that the proxy's user opens can send requests to it. A page whose own name resolves to this machine (DNS
rebinding) could read the answers, so `Host` must be a name of ours. A page of another site can't read them, but its
requests would cost money all the same, so it is refused by its `Origin`, or by the browser's `Sec-Fetch-Site`
(https://www.w3.org/TR/fetch-metadata/), unless a setting allows it; then its browser gets the headers of CORS
(https://fetch.spec.whatwg.org/#http-cors-protocol). Programs send neither header.
"""

from __future__ import annotations

import ipaddress
import platform
from collections.abc import Iterable, Mapping

from hivemind.proxy.asgi import Message, Send
from hivemind.redaction.text import holds_key
from hivemind.settings import Settings
from hivemind.settings.hosts import ANY, LONGEST_SHOWN, NULL, checked_origin, host_in
from hivemind.upstream.origin import is_loopback_host
from hivemind.wire.request_head import Headers, RequestRefused

ALWAYS = frozenset(
    {
        "localhost",
        # This machine, as containers and virtual machines on it call it. ICANN has reserved .internal for private use.
        "host.docker.internal",
        "gateway.docker.internal",
        "host.containers.internal",
        "host.lima.internal",
    }
)
"""Names that can't exist in the public DNS, accepted by every proxy."""
_MOST_CACHED = 256
_MAX_AGE_S = b"600"
"""How long a browser may cache a preflight's answer."""
_OURS = (b"access-control-allow-origin", b"access-control-expose-headers", b"access-control-allow-credentials")

Fields = Mapping[bytes, bytes]


class AccessPolicy:
    """The policy of one proxy; `hosts` and `origins` are as :mod:`hivemind.settings.hosts` returns them."""

    def __init__(self, hosts: Iterable[str], origins: Iterable[str]) -> None:
        self._hosts = ALWAYS | {host for host in hosts if not host.startswith(".")}
        self._suffixes = (".localhost", *(host for host in hosts if host.startswith(".")))
        self._origins = frozenset(origins)
        self._known: set[bytes] = set()
        """`Host` headers that were found to be ours: clients send the same one again and again."""

    @classmethod
    def of(cls, settings: Settings) -> AccessPolicy:
        """Return the policy for a proxy that listens as the settings say."""
        names = own_names(settings.host, platform.node())
        return cls((*names, *settings.allowed_hosts), settings.allowed_origins)

    def denial(self, headers: Mapping[bytes, bytes], own: bool) -> RequestRefused | None:
        """Return why a request is refused; None where it isn't.

        `own`: the proxy answers itself. Then a page of its own site is refused too: the proxy serves no pages, so that
        one came from an upstream.
        """
        host = headers.get(b"host", b"")
        if host not in self._known:
            denied = self._check_host(host)
            if denied is not None:
                return denied
        if b"origin" in headers:
            return self._by_origin(headers[b"origin"], host, own)
        if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            return _foreign_page()
        return None

    def allows_origin(self, origin: bytes) -> bool:
        """Return whether a setting allows pages of that origin."""
        text = origin.decode("latin-1").lower()
        return text in self._origins or f"{text.partition('://')[0]}://{ANY}" in self._origins

    def _check_host(self, raw: bytes) -> RequestRefused | None:
        if not raw:
            return RequestRefused(400, "the request has no Host header")
        name = host_in(raw.decode("latin-1"))
        if name is None:
            return RequestRefused(400, "the Host header is no host, with or without a port")
        if not self._is_ours(name):
            if holds_key(name):
                return RequestRefused(421, "the Host header names another host than this proxy", "foreign_host")
            text = f"the Host header says {name}, which this proxy doesn't know as a name of its own; if it is one,"
            text += f" start the proxy with --allowed-hosts {name} (HIVEMIND_ALLOWED_HOSTS); if it is a provider's, set"
            text += " this proxy as the client's base URL, not in HTTP_PROXY"
            return RequestRefused(421, text, "foreign_host")
        if len(self._known) < _MOST_CACHED:
            self._known.add(raw)
        return None

    def _is_ours(self, name: str) -> bool:
        if name in self._hosts or ANY in self._hosts or name.endswith(self._suffixes):
            return True
        try:
            # An address isn't resolved by DNS, so a page with this one in its URL came from here. Browsers take an
            # unspecified one for this machine too, without telling which site the page is from.
            return not ipaddress.ip_address(name).is_unspecified
        except ValueError:
            return False

    def _by_origin(self, origin: bytes, host: bytes, own: bool) -> RequestRefused | None:
        same = not own and origin.lower() in (b"http://" + host.lower(), b"https://" + host.lower())
        if same or self.allows_origin(origin):
            return None
        try:
            shown = checked_origin(origin.decode("latin-1"))
        except ValueError:
            shown = NULL
        if shown == NULL or len(shown) > LONGEST_SHOWN or holds_key(shown):
            return _foreign_page()
        return _foreign_page(
            f"; if {shown} is yours, start the proxy with --allowed-origins {shown} (HIVEMIND_ALLOWED_ORIGINS)"
        )


def _foreign_page(advice: str = "") -> RequestRefused:
    return RequestRefused(403, f"a page of another site in a browser may not use this proxy{advice}", "foreign_page")


def own_names(host: str, machine: str) -> Iterable[str]:
    """Return the names of a proxy that listens on `host`, on a machine named `machine`.

    A proxy on loopback has none: other machines can't reach it.
    """
    named = host_in(f"[{host}]" if ":" in host else host)
    if named is None or is_loopback_host(named):
        return ()
    name = machine.lower()
    first = name.partition(".")[0]
    names = (named, *(() if _is_address(name) else (name, first, f"{first}.local")))
    # Addresses are accepted anyway, except 0.0.0.0, which must not be.
    return [each for each in dict.fromkeys(names) if host_in(each) == each and not _is_address(each)]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


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
