"""Upstreams: parsing and checking them as the user wrote them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from hivemind.providers.base import Profile
from hivemind.providers.profiles import PROFILES, profile_for

FIRST_UPSTREAMS = ("https://api.anthropic.com", "https://api.openai.com", "https://generativelanguage.googleapis.com")
"""Used if no upstream is set: each request goes to the provider whose API its path belongs to."""

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)=(?P<url>.*)", re.DOTALL)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(Struct, frozen=True):
    """One upstream and its provider's profile."""

    name: str
    """Unique; `/to/<name>/...` leads to it."""
    url: str
    """Scheme, authority and base path, without a slash at the end."""
    scheme: str
    """`http` or `https`."""
    host: str
    """Without brackets where it is an IPv6 address."""
    port: int
    base_path: str
    """Put before every request's path; empty, or begins with a slash and doesn't end with one."""
    profile: Profile

    @property
    def authority(self) -> str:
        """Return it as a Host header has it: brackets around IPv6, no port if it is the scheme's default."""
        return _authority(self.scheme, self.host, self.port)


def split_upstream(text: str) -> tuple[str | None, str]:
    """Split `NAME=URL` or `URL` into the name, if any, and the URL without a slash at the end; check both.

    Raises: ValueError, whose text never repeats credentials.
    """
    match = _NAMED.fullmatch(text.strip())
    name, url = (match["name"], match["url"]) if match else (None, text.strip())
    parts, port = _check(url)
    return name, f"{parts.scheme}://{_authority(parts.scheme, parts.hostname or '', port)}{parts.path.rstrip('/')}"


def make_origins(upstreams: Sequence[str], profile: Profile | None) -> tuple[Origin, ...]:
    """Return the origins of upstreams that :func:`split_upstream` accepts.

    One without a name is named after its provider; the second of a name is `name-2`. `profile` holds for all of them;
    None: found by the URL, or, if that matches none (a gateway, a test), by the name.

    Raises: ValueError: the same name was given twice.
    """
    pairs = [split_upstream(text) for text in upstreams]
    taken = [name for name, _ in pairs if name is not None]
    if twice := next((name for name in taken if taken.count(name) > 1), None):
        raise ValueError(f"the name {twice} is given to two upstreams")
    origins = []
    for name, url in pairs:
        found = profile or profile_for(url)
        if profile is None and found.anybodys:
            found = PROFILES.get(name or "", found)
        parts, port = _check(url)
        name = name or _free_name(found.name, taken)
        taken.append(name)
        origins.append(Origin(name, url, parts.scheme, parts.hostname or "", port, parts.path, found))
    return tuple(origins)


def _check(url: str) -> tuple[SplitResult, int]:
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("must be plain ASCII without spaces (an international host name in its xn-- form)")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("must be a URL with a host and, if any, a port from 1 to 65535") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError("must be URL or NAME=URL, where URL begins with http:// or https:// and names a host")
    if "@" in parts.netloc:
        raise ValueError("must hold no user name or password; credentials come from the agents")
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise ValueError("must end with its path; it can't have a query or fragment")
    if port == 0:
        raise ValueError("must have a port from 1 to 65535")
    return parts, port or _DEFAULT_PORTS[parts.scheme]


def _authority(scheme: str, host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port == _DEFAULT_PORTS[scheme] else f"{shown}:{port}"


def _free_name(wanted: str, taken: Sequence[str]) -> str:
    numbered = (wanted, *(f"{wanted}-{number}" for number in range(2, len(taken) + 2)))
    return next(name for name in numbered if name not in taken)
