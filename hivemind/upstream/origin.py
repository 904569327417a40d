"""The origin of an upstream: scheme, host and port of its URL."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, ip_address, ip_network
from urllib.parse import urlsplit

from msgspec import Struct

_DEFAULT_PORTS = {"http": 80, "https": 443}
_USUAL = re.compile(r"(https?)://([a-z0-9.-]+)(?::([0-9]{1,5}))?(?:/[a-zA-Z0-9._~/-]*)?")
_PRIVATE = [
    ip_network(each)
    for each in (
        *("127.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("::1/128", "::/128", "fc00::/7", "fe80::/10"),
    )
]
"""This machine (also as 0.0.0.0), private networks (RFC 1918, RFC 4193) and link-local ones."""
_HERE = re.compile(r"(?:.*\.)?(?:localhost|local)|(?:host|gateway)\.docker\.internal|host\.containers\.internal", re.I)
_FOUR_NUMBERS = re.compile(r"[0-9.]+")


class Origin(Struct, frozen=True):
    """Scheme, host and port of an upstream; as text, nothing else of its URL."""

    scheme: str
    host: str
    """Host for the resolver and SNI: IDNA encoded, an IPv6 address without its brackets."""
    port: int
    authority: bytes
    """The value of the `host` header: the port only where it isn't the scheme's own."""

    @classmethod
    def parse(cls, url: str) -> Origin:
        """Return the origin of a URL; path and query are ignored.

        Raises: ValueError, with a text that doesn't repeat a password.
        """
        scheme, host, named_port = _usual(url) or _unusual(url)
        default = _DEFAULT_PORTS[scheme]
        port = named_port or default
        authority = f"[{host}]" if ":" in host else host
        if port != default:
            authority += f":{port}"
        return cls(scheme, host, port, authority.encode("ascii"))

    @property
    def tls(self) -> bool:
        """Whether it is reached over TLS."""
        return self.scheme == "https"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority.decode('ascii')}"


def is_local(host: str) -> bool:
    """Return whether a host is on this machine or a private network, as far as its address or name tells."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return _HERE.fullmatch(host.removesuffix(".")) is not None
    address = (address.version == 6 and address.ipv4_mapped) or address
    return any(address in network for network in _PRIVATE if network.version == address.version)


def can_exist(host: bytes, port: int | None) -> bool:
    """Return whether host and port could exist; httpx accepts more than that."""
    labels = host.removesuffix(b".").split(b".")
    return (
        not set(host) & set(b"[]%, ")
        and all(0 < len(label) < 64 for label in labels)
        and (port is None or 0 < port < 65536)
    )


def _usual(url: str) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port of a URL in the usual form; None for any other."""
    match = _USUAL.fullmatch(url)
    if match is None:
        return None
    scheme, host, digits = match.groups()
    port = int(digits) if digits else None
    if not can_exist(host.encode(), port) or (_FOUR_NUMBERS.fullmatch(host) and not _is_ipv4(host)):
        return None
    return scheme, host, port


def _is_ipv4(host: str) -> bool:
    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True


def _unusual(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of any URL. Raises: ValueError, with a text that doesn't repeat a password."""
    import httpx  # parses every form, but is slow to import

    shown = "the upstream's URL" if "@" in url else f"upstream {url!r}"
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as exc:
        raise ValueError(f"{shown} is not a URL") from exc
    if parsed.scheme not in _DEFAULT_PORTS or not can_exist(parsed.raw_host, parsed.port):
        raise ValueError(f"{shown} must be of the form http://host[:port] or https://host[:port]")
    if parsed.userinfo:
        raise ValueError(f"{shown} must not carry a user name or password: clients send their own credentials")
    return parsed.scheme, parsed.raw_host.decode("ascii"), parsed.port


def is_loopback(url: str) -> bool:
    """Return whether a URL is of this machine only."""
    return is_loopback_host((urlsplit(url).hostname or "").removesuffix("."))


def is_loopback_host(host: str) -> bool:
    """Return whether a name in small letters, or an address, is of this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_public(url: str) -> bool:
    """Return whether a server on the internet might reach a URL, over TLS."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        reachable = ip_address(host).is_global
    except ValueError:
        reachable = "." in host and not host.endswith((".local", ".localhost", ".internal", ".lan", ".home.arpa"))
    return parts.scheme == "https" and reachable
