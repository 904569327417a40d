"""The fleet's names of this proxy's lanes, found where the credential is read, which isn't kept."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from hivemind.providers.base import Profile
from hivemind.upstream.origin import is_loopback
from hivemind.wire.identity import fleet_lane

KEPT = 65_536
"""Names that are kept, far more than lanes."""
_PORTS = {"http": 80, "https": 443}
_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class FleetLanes:
    """Finds each lane's name once, at the first head that is read of it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def note(self, lane: str, headers: Sequence[tuple[bytes, bytes]], query: bytes, profile: Profile, url: str) -> None:
        """Note the fleet's name of a lane, unless it is known; `url` is the upstream's."""
        if lane in self._names:
            return
        if len(self._names) >= KEPT:
            del self._names[next(iter(self._names))]
        self._names[lane] = fleet_lane(headers, query, profile, place_of(url))

    def name(self, lane: str) -> str:
        """Return the fleet's name of a lane."""
        # A name that was dropped: a lane of its own is better than none, and can happen to made-up credentials only.
        return self._names.get(lane) or sha256(f"{lane}|{machine()}".encode()).hexdigest()[:32]


def place_of(url: str) -> str:
    """Return what tells an upstream from others, on whichever machine."""
    return place_on(url, machine())


@cache
def place_on(url: str, machine: str) -> str:
    """Return what tells an upstream of a proxy on that machine from others: scheme, host and port of its URL, and for
    one on the loopback the machine."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower().removesuffix(".")
    origin = f"{parts.scheme}://{host}:{parts.port or _PORTS.get(parts.scheme, 0)}"
    return f"{origin}|{machine}" if is_loopback(url) else origin


@cache
def machine() -> str:
    """Return what tells this machine, or this container with a network of its own, from others."""
    known = [platform.node()]
    for path in _IDS:
        try:
            known.append(Path(path).read_text("ascii").strip())
            break
        except (OSError, ValueError):
            continue
    with contextlib.suppress(OSError):
        known.append(str(os.stat("/proc/self/ns/net").st_ino))  # whose loopback it is
    return sha256("|".join(known).encode()).hexdigest()[:16]
