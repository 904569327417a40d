"""What clients send and are answered, for a journal that is to have it.

On the event loop references are kept, and nothing else is done; a thread unpacks, masks and writes. The reader of the
answer gets the very bytes that came.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cached_property, partial

from hivemind.journal.codec import line_of
from hivemind.journal.records import RequestBody, ResponseBody
from hivemind.journal.write.recorder import Recorder
from hivemind.journal.write.writer import DeferredLines
from hivemind.providers.encoding import decode_body
from hivemind.redaction.bodies import lent_in, redact_body
from hivemind.redaction.values import credentials_in, longest_first, masked_headers
from hivemind.upstream.base import Headers, UpstreamResponse
from hivemind.wire.call import Call
from hivemind.wire.recent_heads import Heads

LONGEST = 16 << 20
"""Bytes of one body, unpacked, that are written."""
COMING_MOST = 64 << 20
"""Bytes of all answers that are still coming."""
_HEADS = 1 << 10
"""About what heads take."""
_SHARE = 0.75
"""Of what may wait for the disk; the rest is for events, which are worth more."""
_TOO_LONG = f"it is longer than {LONGEST >> 20} MiB"
_TOO_MANY = "too many were waiting to be written"
_UNREADABLE = f"it can't be unpacked, or is longer than {LONGEST >> 20} MiB"


class Bodies:
    """`own` are credentials of the proxy's own; `now` is the clock of events."""

    def __init__(self, recorder: Recorder, now: Callable[[], float], own: tuple[str, ...]) -> None:
        self._recorder = recorder
        self.own = own
        self.now = now
        self.coming = 0
        """Bytes of answers that have begun."""

    def asked(self, ticket: int, call: Call, headers: Headers) -> BodyRecorder:
        """Record the body of a request that came with these headers."""
        path, _, query = call.head.target.partition(b"?")
        raw_path = path.removeprefix(call.head.route.origin.base_path.encode())  # the path that the API has
        heads = Heads(ticket, call.head.method.decode("latin-1"), raw_path, query, headers)
        recorded = BodyRecorder(self, heads)
        self.put(call.body, "", partial(recorded.request_line, self.now()))
        return recorded

    def put(self, body: bytes, left_out: str, make: Callable[[bytes, str], bytes]) -> None:
        """Have a line made of a body, or without it."""
        if not left_out and len(body) > LONGEST:
            left_out = _TOO_LONG
        if not left_out and not self._recorder.has_room(len(body) + _HEADS, _SHARE):
            left_out = _TOO_MANY
        if left_out:
            body = b""
        self._recorder.later(self.now(), DeferredLines(partial(make, body, left_out), len(body) + _HEADS))


class BodyRecorder:
    """One request, and what each attempt at it is answered."""

    def __init__(self, bodies: Bodies, heads: Heads) -> None:
        self._bodies = bodies
        self._heads = heads
        self._lent: tuple[str, ...] = ()

    def answer(self, attempt: int, response: UpstreamResponse) -> UpstreamResponse:
        """An attempt is answered. Returns what is to be read in its place: what is read of it until it is closed is
        recorded."""
        return _RecordedResponse(response, self._bodies, partial(self._over, attempt, response))

    def _over(self, attempt: int, response: UpstreamResponse, body: bytes, left_out: str) -> None:
        make = partial(self._response_line, self._bodies.now(), attempt, response.status, response.headers)
        self._bodies.put(body, left_out, make)

    # --- In the writer's thread -----------------------------------------------------------------------------------

    @cached_property
    def _secrets(self) -> tuple[str, ...]:
        return self._heads.secrets(self._bodies.own)

    def request_line(self, at: float, body: bytes, left_out: str) -> bytes:
        """The line of the request's body."""
        heads = self._heads
        method, path = heads.masked_target(self._secrets)
        headers = masked_headers(heads.request, self._secrets)
        self._lent = lent_in(_unpacked(heads.request, body))
        text = body_text(heads.request, body, left_out, self._secrets)
        return line_of(RequestBody(at, heads.ticket, method, path, headers, *text))

    def _response_line(
        self, at: float, attempt: int, status: int, headers: Headers, body: bytes, left_out: str
    ) -> bytes:
        secrets = longest_first({*self._secrets, *self._lent, *credentials_in(headers, b"")})
        text = body_text(headers, body, left_out, secrets)
        shown = masked_headers(headers, secrets)
        return line_of(ResponseBody(at, self._heads.ticket, attempt, status, shown, *text))


class _RecordedResponse:
    def __init__(self, response: UpstreamResponse, bodies: Bodies, over: Callable[[bytes, str], None]) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._bodies = bodies
        self._over: Callable[[bytes, str], None] | None = over
        self._parts: list[bytes] = []
        self._size = 0
        self._left_out = ""

    async def read(self) -> bytes:
        data = await self._response.read()
        if not self._left_out:
            self._parts.append(data)
            self._size += len(data)
            self._bodies.coming += len(data)
            if self._size > LONGEST or self._bodies.coming > COMING_MOST:
                self._left_out = _TOO_LONG if self._size > LONGEST else _TOO_MANY
                self._forget()
        return data

    def close(self) -> None:
        self._response.close()
        if self._over is not None:
            over, self._over = self._over, None
            body = b"".join(self._parts)
            self._forget()
            over(body, self._left_out)

    def _forget(self) -> None:
        self._bodies.coming -= self._size
        self._parts, self._size = [], 0


def _unpacked(headers: Headers, body: bytes) -> bytes:
    return decode_body([(name.lower(), value) for name, value in headers], body, LONGEST)


def body_text(headers: Headers, body: bytes, left_out: str, secrets: tuple[str, ...]) -> tuple[str, str, str]:
    """The body as text without credentials, how that is encoded, and why there is none. Takes long."""
    if left_out or not body:
        return "", "", left_out
    plain = _unpacked(headers, body)
    if not plain:
        return "", "", _UNREADABLE
    plain, _ = redact_body(plain, secrets)
    try:
        return plain.decode(), "", ""
    except UnicodeDecodeError:
        return base64.b64encode(plain).decode(), "base64", ""
