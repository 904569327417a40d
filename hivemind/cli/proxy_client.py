"""A proxy's control API for the command line: one request at a time, and what goes wrong said in one line.

With the standard library's HTTP client, because a command that prints three lines shouldn't take half a second.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from hivemind import __version__
from hivemind.api_types import PREFIX, Failure
from hivemind.console import printable
from hivemind.control.codec import decode_named, to_plain
from hivemind.control.discovery import ProxyAddress, Token
from hivemind.errors import HiveMindError

T = TypeVar("T")

_CONNECT_WITHIN_S = 3.0
_ANSWER_WITHIN_S = 10.0


class ProxyError(HiveMindError):
    """The proxy can't be had, or refuses; the text is its own words, or says what would mend it."""


class ProxyClient:
    """A proxy's control API. Every method raises ProxyError.

    What comes is to be shown, and another proxy than ours may have said it: texts in it are on one line and printable,
    unless they are wanted `as_it_is`, for a program that reads along.
    """

    def __init__(self, place: ProxyAddress, token: Token, who: str, *, as_it_is: bool = False) -> None:
        self.place = place
        self._as_it_is = as_it_is
        self._token = token
        self._who = who

    def get(self, path: str, made: type[T], **query: str | None) -> T:
        """Return an endpoint's answer as its type."""
        given = urlencode({name: value for name, value in query.items() if value is not None})
        return self.get_decoded(lambda data: decode_named(data, made), f"{path}?{given}" if given else path)

    def get_decoded(self, decode: Callable[[bytes], T], path: str) -> T:
        """Return an endpoint's answer of a type that has its own decoder."""
        return self._read(self._request("GET", path), decode)

    def command(self, name: str, **arguments: object) -> dict[str, Any]:
        """Have a command carried out, and return it in full."""
        body = {"name": name, "arguments": to_plain(arguments), "who": self._who}
        data = self._request("POST", "/commands", msgspec.json.encode(body))
        return self._read(data, msgspec.json.Decoder(dict[str, Any]).decode)

    def _read(self, data: bytes, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(self._shown(data))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            url = self.place.url
            raise ProxyError(
                f"{url}: its answer can't be read; is it HiveMind {__version__}, as this is, and the URL right?"
            ) from None

    def _shown(self, data: bytes) -> bytes:
        """Raises: msgspec.DecodeError, UnicodeDecodeError."""
        if self._as_it_is or (b"\\" not in data and data.isascii()):
            return data
        return msgspec.json.encode(_printable_in(msgspec.json.decode(data)))

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        try:
            status, data = self._exchange(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            raise ProxyError(f"no proxy at {self.place.url}: {_why(error)}") from None
        if status == 200:
            return data
        try:
            text = printable(msgspec.json.decode(data, type=Failure).error)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ProxyError(
                f"what answers at {self.place.url} isn't HiveMind's control API (status {status}); is the URL right?"
            ) from None
        if status == 401:
            raise ProxyError(f"{self.place.url} doesn't take the token from {self._token.origin}: {text}")
        raise ProxyError(text)

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Raises: OSError, http.client.HTTPException."""
        parts = urlsplit(self.place.url)
        host = parts.hostname or ""
        made = http.client.HTTPConnection(host, self.place.port, timeout=_CONNECT_WITHIN_S)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            made = http.client.HTTPSConnection(host, self.place.port, timeout=_CONNECT_WITHIN_S, context=context)
        try:
            made.connect()
            made.sock.settimeout(_ANSWER_WITHIN_S)
            headers = {"authorization": f"Bearer {self._token.text}", "content-type": "application/json"}
            made.request(method, f"{parts.path}{PREFIX}{path}", body, headers)
            answer = made.getresponse()
            return answer.status, answer.read()
        finally:
            made.close()


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
    return "what answers there doesn't speak HTTP"
