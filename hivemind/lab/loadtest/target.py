"""The target of a load test: whether requests to it cost money, and whether it is a HiveMind."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass

import msgspec

from hivemind.errors import HiveMindError, UsageError
from hivemind.providers.profiles import PROFILES, profile_for
from hivemind.settings import Origin
from hivemind.settings.origin import make_origins, split_upstream
from hivemind.upstream.base import ConnectFailed, Upstream, UpstreamError, UpstreamResponse

_FREE = frozenset({"ollama", "generic"})
"""Profiles of servers that are free of charge on a private address."""
_LONGEST = 1 << 20
"""Bytes of an answer that are read."""


class Unreachable(HiveMindError):
    """The target doesn't answer."""


@dataclass(frozen=True, slots=True)
class Target:
    """An upstream, a gateway or a HiveMind."""

    origin: Origin
    private: bool
    """On this machine or in a private network."""

    @property
    def here(self) -> bool:
        """It is on this machine, so no HTTP proxy is used."""
        host = self.origin.host
        return host == "localhost" or host == "::1" or host.startswith("127.")

    @property
    def url(self) -> str:
        return self.origin.url

    @property
    def provider(self) -> str:
        """The name of its profile, by its URL."""
        return self.origin.profile.name

    @property
    def paid(self) -> bool:
        """Requests may cost money."""
        return not self.private

    def path(self, path: str) -> str:
        """Return a recorded path below the base path, which isn't put before a path that has it already."""
        base = self.origin.base_path
        return path if not base or path.startswith(f"{base}/") else base + path


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """What the target says of itself."""

    hivemind: bool
    paid: bool | None = None
    """Whether a HiveMind's upstreams may cost money; None: it doesn't name them."""
    upstreams: tuple[str, ...] = ()
    """Their URLs."""


class _Health(msgspec.Struct):
    status: str
    version: str
    uptime_s: float


class _Stats(msgspec.Struct):
    upstreams: list[tuple[str, str]]


def target_of(text: str) -> Target:
    """Parse a URL or NAME=URL. Raises: UsageError."""
    try:
        name, url = split_upstream(text)
        if name is not None and name not in PROFILES:
            raise ValueError(f"{name}= before the URL must be a provider: {', '.join(PROFILES)}")
        origin = make_origins((text,), None)[0]
    except ValueError as error:
        raise UsageError(f"--against: {error}") from None
    return Target(origin, _costs_nothing(url, origin.host))


def _costs_nothing(url: str, host: str) -> bool:
    return profile_for(url).name in _FREE and is_private(host)


def is_private(host: str) -> bool:
    """Return whether all addresses of a host are this machine's or private."""
    try:
        found = {ipaddress.ip_address(host)}
    except ValueError:
        try:
            rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return False
        found = {ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows}
    return bool(found) and all(each.is_private or each.is_loopback or each.is_link_local for each in found)


async def probe_target(upstream: Upstream, target: Target, token: str | None, within_s: float = 10.0) -> TargetInfo:
    """Ask the target whether it is a HiveMind. Raises: Unreachable: nothing can be sent there."""
    try:
        async with asyncio.timeout(within_s):
            data = await _get(upstream, target.origin.base_path + "/_health", None)
    except ConnectFailed as error:
        raise Unreachable(f"nothing can be sent there: {error}") from None
    except (UpstreamError, TimeoutError):
        return TargetInfo(False)  # it serves no such path, or doesn't answer in time
    try:
        msgspec.json.decode(data, type=_Health)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return TargetInfo(False)
    try:
        stats = msgspec.json.decode(await _get(upstream, target.origin.base_path + "/_stats", token), type=_Stats)
    except (UpstreamError, msgspec.MsgspecError, UnicodeDecodeError):
        return TargetInfo(True)
    origins = [make_origins((f"{name}={url}",), None)[0] for name, url in stats.upstreams]
    paid = any(not _costs_nothing(each.url, each.host) for each in origins)
    return TargetInfo(True, paid, tuple(each.url for each in origins))


async def _get(upstream: Upstream, path: str, token: str | None) -> bytes:
    """Return the body of a 200 response; of another one nothing. Raises: UpstreamError."""
    headers = [(b"accept", b"application/json")]
    if token is not None:
        headers.append((b"x-hivemind-token", token.encode()))
    response = await upstream.send(b"GET", path.encode(), headers, b"")
    try:
        return await _read(response) if response.status == 200 else b""
    finally:
        response.close()


async def _read(response: UpstreamResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= _LONGEST and (data := await response.read()):
        parts.append(data)
        size += len(data)
    return b"".join(parts)
