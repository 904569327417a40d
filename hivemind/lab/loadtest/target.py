"""The target of a load test: whether requests to it cost money, whether it is a HiveMind, and its credentials.

The journal has no credentials, so they come from the environment.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from hivemind.errors import HiveMindError, UsageError
from hivemind.providers.profiles import OLLAMA, PROFILES, profile_for
from hivemind.settings import Origin
from hivemind.settings.origin import make_origins, split_upstream
from hivemind.upstream.base import ConnectFailed, Upstream, UpstreamError, UpstreamRequest

_LONGEST = 1 << 20
"""Bytes of an answer that are read."""
TOKEN_VARIABLE = "HIVEMIND_TOKEN"
_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "ollama": ("OLLAMA_API_KEY",),
}
_DIALECTS = {"openai_chat": "openai", "openai_responses": "openai"}
_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,60}")
"""What error messages may repeat; anything else may be a key given in place of a variable's name."""
_BEARER = "authorization"
_HEADERS = {"anthropic": "x-api-key", "azure": "api-key", "google": "x-goog-api-key"}


class Unreachable(HiveMindError):
    """The target doesn't answer."""


class LoadTarget(Struct, frozen=True):
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

    def path(self, path: str) -> str:
        """Return a recorded path below the base path, which isn't put before a path that has it already."""
        base = self.origin.base_path
        return path if not base or path.startswith(f"{base}/") else base + path


class TargetInfo(Struct, frozen=True):
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


def target_of(text: str) -> LoadTarget:
    """Parse a URL or NAME=URL. Raises: UsageError."""
    try:
        name, url = split_upstream(text)
        if name is not None and name not in PROFILES:
            raise ValueError(f"{name}= before the URL must be a provider: {', '.join(PROFILES)}")
        origin = make_origins((text,), None)[0]
    except ValueError as error:
        raise UsageError(f"--against: {error}") from None
    return LoadTarget(origin, _costs_nothing(url, origin.host))


def _costs_nothing(url: str, host: str) -> bool:
    profile = profile_for(url)
    return (profile.anybodys or profile is OLLAMA) and is_private(host)


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


async def probe_target(upstream: Upstream, target: LoadTarget, token: str | None, within_s: float = 10.0) -> TargetInfo:
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
    response = await upstream.send(UpstreamRequest(b"GET", path.encode(), headers, b""))
    try:
        body = bytearray()
        while response.status == 200 and len(body) <= _LONGEST and (data := await response.read()):
            body += data
        return bytes(body)
    finally:
        response.close()


class ApiKeys:
    """Chooses the credential of each request.

    `named` is the variable that the user named; without one, the usual variable of the API is used, unless the target
    is an unknown public server. Raises: UsageError: the variable isn't set, or its value is no key.
    """

    def __init__(self, environ: Mapping[str, str], named: str | None, target: LoadTarget) -> None:
        self._environ = environ
        self._target = target
        self._named = None if named is None else _from(environ, named, "--api-key-env")

    def header(self, dialect: str, path: str) -> tuple[bytes, bytes] | None:
        """Return the header with the credential, if there is one."""
        kind = "azure" if "/openai/deployments/" in path else _DIALECTS.get(dialect, dialect)
        key = self._named or self._usual(kind)
        if key is None:
            return None
        name = _HEADERS.get(kind, _BEARER)
        return name.encode(), (f"Bearer {key}" if name == _BEARER else key).encode()

    def check(self, used: Iterable[tuple[str, str]]) -> None:
        """Check that a public target gets a credential for each of these dialects and paths. Raises: UsageError."""
        if self._target.private:
            return
        for dialect, path in used:
            if self.header(dialect, path) is not None:
                if self._target.origin.scheme == "http":
                    raise UsageError(
                        f"{self._target.url}: a key isn't sent unencrypted over the internet; use https://"
                    )
                continue
            kind = _DIALECTS.get(dialect, dialect)
            names = " or ".join(_VARIABLES.get(kind, ()))
            if names and self._is_theirs(kind):
                raise UsageError(f"no key for {self._target.url}: set {names}, or name a variable with --api-key-env")
            raise UsageError(
                f"{self._target.url} isn't a provider's own address, so no key goes there unasked; name the variable"
                " that holds one with --api-key-env"
            )

    def _usual(self, kind: str) -> str | None:
        if not (self._target.private or self._is_theirs(kind)):
            return None
        name = next((each for each in _VARIABLES.get(kind, ()) if self._environ.get(each)), None)
        return None if name is None else _from(self._environ, name, "the environment")

    def _is_theirs(self, kind: str) -> bool:
        """Return whether the target is the provider that issues this kind of key."""
        return self._target.provider == kind or (kind == "openai" and self._target.provider == "azure")


def token_of(environ: Mapping[str, str], target: LoadTarget) -> str | None:
    """Return the token that a HiveMind requires of its agents, if there is one. Raises: UsageError."""
    if target.private and environ.get(TOKEN_VARIABLE):
        return _from(environ, TOKEN_VARIABLE, "the environment")
    return None


def _from(environ: Mapping[str, str], name: str, where: str) -> str:
    """Return a variable's value. Raises: UsageError, which names the variable and never its value."""
    value = environ.get(name, "")
    if not value and not _NAME.fullmatch(name):
        raise UsageError(f"{where}: must be the name of a variable, such as ANTHROPIC_API_KEY, and not a key itself")
    if not value:
        raise UsageError(f"{where}: {name} isn't set")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise UsageError(f"{name}: a key is printable ASCII without spaces")
    return value
