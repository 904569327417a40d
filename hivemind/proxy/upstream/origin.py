"""Where an upstream is: scheme, host and port, read from its URL."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of an upstream. Its text names them and nothing else of the URL."""

    scheme: str
    host: str
    """As it goes to the resolver and into SNI: IDNA encoded, an IPv6 address without its brackets."""
    port: int
    authority: bytes
    """The value of the `host` header: the port only where it isn't the scheme's own."""

    @classmethod
    def parse(cls, url: str) -> Origin:
        """Read it from a URL; path and query are left aside.

        Raises: ValueError, with a text that doesn't repeat a password.
        """
        shown = "the upstream's URL" if "@" in url else f"upstream {url!r}"
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as exc:
            raise ValueError(f"{shown} is not a URL") from exc
        if parsed.scheme not in _DEFAULT_PORTS or not names_a_place(parsed):
            raise ValueError(f"{shown} must be of the form http://host[:port] or https://host[:port]")
        if parsed.userinfo:
            raise ValueError(f"{shown} must not carry a user name or password: clients send their own credentials")
        host = parsed.raw_host.decode("ascii")
        default = _DEFAULT_PORTS[parsed.scheme]
        port = parsed.port or default
        authority = f"[{host}]" if ":" in host else host
        if port != default:
            authority += f":{port}"
        return cls(parsed.scheme, host, port, authority.encode("ascii"))

    @property
    def tls(self) -> bool:
        """Whether it is reached over TLS."""
        return self.scheme == "https"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority.decode('ascii')}"


def names_a_place(url: httpx.URL) -> bool:
    """Whether host and port could exist; httpx takes more than that."""
    host = url.raw_host
    labels = host.removesuffix(b".").split(b".")
    return (
        not set(host) & set(b"[]%, ")
        and all(0 < len(label) < 64 for label in labels)
        and (url.port is None or 0 < url.port < 65536)
    )
