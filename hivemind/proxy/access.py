"""Whether a request may come at all, by what no page in a browser can make up: `Host`, `Origin` and `Sec-Fetch-Site`.

The proxy listens where every page that its user opens can send requests to. A page whose own name is made to lead here
(DNS rebinding) could read the answers, so `Host` must be a name of ours. A page of another site can't read them, but
what it sends would be paid for all the same, so it is refused by its `Origin`, or by what the browser says of the two
sites (https://www.w3.org/TR/fetch-metadata/), unless a setting lets it in. Programs send neither.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from hivemind.scheduler.types import record
from hivemind.settings.hosts import ANY, LONGEST_SHOWN, NULL, checked_origin, host_in

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
"""Names that nobody can get in the public DNS, taken by every proxy."""
_MOST_REMEMBERED = 256


@record
class Unwelcome:
    """Why a request may not come."""

    status: int
    reason: str
    text: str


class Admission:
    """The rule of one proxy; `hosts` and `origins` are as :mod:`hivemind.settings.hosts` returns them."""

    def __init__(self, hosts: Iterable[str], origins: Iterable[str]) -> None:
        self._hosts = ALWAYS | {host for host in hosts if not host.startswith(".")}
        self._suffixes = (".localhost", *(host for host in hosts if host.startswith(".")))
        self._origins = frozenset(origins)
        self._known: set[bytes] = set()
        """`Host` headers that were found to be ours, byte by byte: clients send the same one again and again."""

    def refusal(self, headers: Mapping[bytes, bytes], own: bool) -> Unwelcome | None:
        """Why it may not come; None: it may.

        `own`: the proxy answers itself. Then a page of its own site isn't let in either: it serves none, so that page
        came from an upstream.
        """
        host = headers.get(b"host", b"")
        if host not in self._known:
            unwelcome = self._look_at(host)
            if unwelcome is not None:
                return unwelcome
        if b"origin" in headers:
            return self._by_origin(headers[b"origin"], host, own)
        if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            return _FOREIGN
        return None

    def allows(self, origin: bytes) -> bool:
        """Whether a setting lets pages of that origin in."""
        text = origin.decode("latin-1").lower()
        return text in self._origins or f"{text.partition('://')[0]}://{ANY}" in self._origins

    def _look_at(self, raw: bytes) -> Unwelcome | None:
        if not raw:
            return Unwelcome(400, "bad_request", "the request has no Host header")
        name = host_in(raw.decode("latin-1"))
        if name is None:
            return Unwelcome(400, "bad_request", "the Host header is no host, with or without a port")
        if not self._is_ours(name):
            text = f"the Host header says {name}, which this proxy doesn't know as a name of its own; if it is one,"
            text += f" start the proxy with --allowed-hosts {name} (HIVEMIND_ALLOWED_HOSTS)"
            return Unwelcome(421, "foreign_host", text)
        if len(self._known) < _MOST_REMEMBERED:
            self._known.add(raw)
        return None

    def _is_ours(self, name: str) -> bool:
        if name in self._hosts or ANY in self._hosts or name.endswith(self._suffixes):
            return True
        try:
            # DNS has no part in addresses, so a page that has this one in its URL came from here. An unspecified one
            # browsers take for this machine, without a word on which site a page is from.
            return not ipaddress.ip_address(name).is_unspecified
        except ValueError:
            return False

    def _by_origin(self, origin: bytes, host: bytes, own: bool) -> Unwelcome | None:
        same = not own and origin.lower() in (b"http://" + host.lower(), b"https://" + host.lower())
        if same or self.allows(origin):
            return None
        try:
            shown = checked_origin(origin.decode("latin-1"))
        except ValueError:
            shown = NULL
        if shown == NULL or len(shown) > LONGEST_SHOWN:
            return _FOREIGN
        text = f"{_FOREIGN.text}; if {shown} is yours, start the proxy with --allowed-origins {shown}"
        return Unwelcome(_FOREIGN.status, _FOREIGN.reason, f"{text} (HIVEMIND_ALLOWED_ORIGINS)")


_FOREIGN = Unwelcome(403, "foreign_page", "a page of another site in a browser may not use this proxy")


def own_names(host: str, machine: str) -> Iterable[str]:
    """What a proxy is called that listens on `host`, on a machine that calls itself `machine`; of a machine that
    listens on loopback nobody elsewhere knows the name."""
    named = host_in(f"[{host}]" if ":" in host else host)
    if named is None or named == "localhost" or _is_loopback(named):
        return ()
    name = machine.lower()
    first = name.partition(".")[0]
    names = (named, *(() if _is_address(name) else (name, first, f"{first}.local")))
    # An address needs no mention, and 0.0.0.0 may have none.
    return [each for each in dict.fromkeys(names) if host_in(each) == each and not _is_address(each)]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
