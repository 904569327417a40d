"""Where requests go: an upstream as the user wrote it, taken apart and checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from hivemind.providers.base import Profile
from hivemind.providers.profiles import PROFILES, profile_for

FIRST_UPSTREAMS = (
    "https://api.anthropic.com",
    "https://api.openai.com",
    "https://generativelanguage.googleapis.com",
)
"""Where requests go when nobody said: to the provider whose API their path belongs to."""

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)=(?P<url>.*)", re.DOTALL)
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """One upstream and what we assume of its provider."""

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
        """As it stands in a Host header: brackets round IPv6, no port where it is the scheme's own."""
        return _authority(self.scheme, self.host, self.port)


def split_upstream(text: str) -> tuple[str | None, str]:
    """Take `NAME=URL` or `URL` apart, and check both.

    Returns the name (None where none was given) and the URL without a slash at the end.

    Raises: ValueError, whose text never repeats credentials.
    """
    match = _NAMED.fullmatch(text.strip())
    name, url = (match["name"], match["url"]) if match else (None, text.strip())
    parts, port = _check(url)
    return name, f"{parts.scheme}://{_authority(parts.scheme, parts.hostname or '', port)}{parts.path.rstrip('/')}"


def make_origins(upstreams: Sequence[str], profile: Profile | None) -> tuple[Origin, ...]:
    """Name and take apart upstreams that :func:`split_upstream` accepts.

    Each is named after its provider where it has no name of its own; the second of a name is `name-2`. `profile`
    holds for all of them; None: each one's is found by its URL, or where that tells nothing by its name.

    Raises: ValueError: the same name was given twice.
    """
    pairs = [split_upstream(text) for text in upstreams]
    given = [name for name, _ in pairs if name is not None]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"the name {twice} is given to two upstreams")
    taken = set(given)
    origins = []
    for name, url in pairs:
        found = profile or _profile_of(name, url)
        origins.append(_origin(name or _free_name(found.name, taken), url, found))
        taken.add(origins[-1].name)
    return tuple(origins)


def _origin(name: str, url: str, profile: Profile) -> Origin:
    parts, port = _check(url)
    return Origin(name, url, parts.scheme, parts.hostname or "", port, parts.path, profile)


def _profile_of(name: str | None, url: str) -> Profile:
    """A gateway's or a test's URL tells nothing of the provider, but who calls it `anthropic` means Anthropic."""
    found = profile_for(url)
    return PROFILES.get(name or "", found) if found.name == "generic" else found


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


def _free_name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name
