"""Which proxy a command asks, the requests to its control API, and how an answer is printed.

With the standard library's HTTP client, because a command that prints three lines shouldn't take half a second.
"""

from __future__ import annotations

import argparse
import http.client
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from hivemind import __version__
from hivemind.api_types import PREFIX, ErrorBody, SnapshotPart
from hivemind.cli.address import locate_proxy, only_proxy
from hivemind.console import print_json, printable
from hivemind.control.codec import UNREADABLE, decode_named, decode_snapshot, to_plain
from hivemind.control.discovery import AGENT_VARIABLE, TOKEN_VARIABLE, ProxyAddress, Token, find_token, parse_address
from hivemind.control.exchange import TooLong, exchange
from hivemind.control.proof import Unproven
from hivemind.errors import HiveMindError, UsageError
from hivemind.text.table import show

T = TypeVar("T")

_WHO_LENGTH = 40
_CONNECT_WITHIN_S = 3.0
_ANSWER_WITHIN_S = 20.0


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of every command that asks a proxy. They may stand before or after a word such as `submit`."""
    add_place_flags(parser)
    parser.add_argument("--json", action="store_true", help="print JSON", default=argparse.SUPPRESS)


def add_place_flags(parser: argparse.ArgumentParser) -> None:
    """Add those that say where it is and where its token is."""
    group = parser.add_argument_group("which proxy")
    unset, token = argparse.SUPPRESS, "its note, or its token alone [HIVEMIND_CONTROL_TOKEN, else its note]"
    place = "where it is [HIVEMIND_URL, else as hivemind.toml says]"
    group.add_argument("--attach", metavar="URL", help=place, default=unset)
    group.add_argument("--token-file", metavar="FILE", help=token, default=unset)


def wants_json(namespace: argparse.Namespace) -> bool:
    """Return whether `--json` was given."""
    return bool(getattr(namespace, "json", False))


def print_answer(namespace: argparse.Namespace, answer: object, text: Iterable[str]) -> int:
    """Print the text, or with `--json` the answer as the control API has it. Return the exit code."""
    if wants_json(namespace):
        return print_json(to_plain(answer))
    show(text)
    return 0


def find_proxy(namespace: argparse.Namespace) -> ProxyClient:
    """Return the proxy that the flags, the variables or the settings' file name, else the only one that runs here.

    Raises: UsageError; HiveMindError: none runs there, since it left no note.
    """
    attach = getattr(namespace, "attach", None)
    url, environ = locate_proxy(only_proxy(attach) or attach)
    place, file = parse_address(url), getattr(namespace, "token_file", None)
    try:
        token = find_token(place, environ, None if file is None else Path(file))
    except UsageError as error:
        if file is None and place.local and not environ.get(TOKEN_VARIABLE):
            raise HiveMindError(str(error)) from None
        raise
    return ProxyClient(place, token, who(environ), as_it_is=wants_json(namespace))


def who(environ: Mapping[str, str]) -> str:
    """Return who gives a command, for the proxy's log: the agent in whose process this runs, else the user."""
    agent = environ.get(AGENT_VARIABLE)
    user = environ.get("USER") or environ.get("LOGNAME")
    if not user:
        import getpass  # on demand: mostly a variable says it

        try:
            user = getpass.getuser()
        except (KeyError, OSError):
            user = "somebody"
    name = f"agent {agent}" if agent else f"{user}@{socket.gethostname()}"
    return "".join(letter for letter in name if letter.isprintable())[:_WHO_LENGTH].strip("@ ") or "command line"


class ProxyError(HiveMindError):
    """The proxy can't be reached, or refuses; the text is its own words, or says what would help."""


class BadInput(ProxyError):
    """The proxy refuses what was given: a value that is out of range, or a name that nothing has."""

    exit_code = UsageError.exit_code


class ProxyClient(Struct, frozen=True):
    """A proxy's control API. Every method raises ProxyError."""

    place: ProxyAddress
    token: Token
    who: str
    as_it_is: bool = False
    """Leave texts as they are, for a program; else they are on one line and printable, whatever the proxy sends."""

    def get(self, path: str, made: type[T], **query: str | None) -> T:
        """Return an endpoint's answer as its type."""
        given = urlencode({name: value for name, value in query.items() if value is not None})
        return self._decoded(self._request("GET", f"{path}?{given}"), lambda data: decode_named(data, made))

    def world(self) -> SnapshotPart:
        """Return the proxy's snapshot."""
        return self._decoded(self._request("GET", "/snapshot"), decode_snapshot)

    def command(self, name: str, *, anywhere: bool = False, **arguments: object) -> dict[str, Any]:
        """Have a command executed, and return it in full; `anywhere`: by each proxy of the fleet that it is about."""
        path = "/fleet/commands" if anywhere else "/commands"
        body = {"name": name, "arguments": to_plain(arguments), "who": self.who}
        data = self._request("POST", path, msgspec.json.encode(body))
        return self._decoded(data, msgspec.json.Decoder(dict[str, Any]).decode)

    def _decoded(self, data: bytes, decode: Callable[[bytes], T]) -> T:
        try:
            if not self.as_it_is and (b"\\" in data or not data.isascii()):
                data = msgspec.json.encode(_printable_in(msgspec.json.decode(data)))
            return decode(data)
        except UNREADABLE:
            url = self.place.url
            raise ProxyError(
                f"{url}: its answer can't be read; is it HiveMind {__version__}, as this is, and the URL right?"
            ) from None

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        try:
            status, data = exchange(
                *(self.place, self.token, method, PREFIX + path, body),
                connect_within_s=_CONNECT_WITHIN_S,
                within_s=_ANSWER_WITHIN_S,
            )
        except Unproven as error:
            raise ProxyError(f"{self.place.url}: {printable(str(error))}") from None
        except (OSError, http.client.HTTPException) as error:
            raise ProxyError(f"no proxy at {self.place.url}: {_why(error)}") from None
        if status == 200:
            return data
        try:
            failure = msgspec.json.decode(data, type=ErrorBody)
        except UNREADABLE:
            raise ProxyError(
                f"what answers at {self.place.url} isn't HiveMind's control API (status {status}); is the URL right?"
            ) from None
        text = printable(failure.error)
        if status == 401:
            raise ProxyError(f"{self.place.url} doesn't take the token from {self.token.origin}: {text}")
        raise BadInput(text) if failure.bad_input else ProxyError(text)


def _printable_in(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable_in(each) for each in value]
    if isinstance(value, dict):
        return {printable(key): _printable_in(each) for key, each in value.items()}
    return value


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there; start it with hivemind proxy"
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error})"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    if isinstance(error, TooLong):
        return f"what answers there doesn't end: {error}"
    if isinstance(error, http.client.IncompleteRead | http.client.NotConnected):
        return "the connection broke off"
    return "what answers there doesn't speak HTTP"
