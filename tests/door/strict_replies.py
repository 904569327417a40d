"""A response as RFC 9112 has it, read without the leniencies that it allows but two: folded lines, and
line feeds as line ends in a head."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from door.strict import TOKEN, Incomplete, Malformed, _chunks, _line

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")  # whatever the reason is, it goes nowhere
_FIELD = re.compile(rb"(%b):[ \t]*(.*?)[ \t]*" % TOKEN, re.DOTALL)
_BARE = re.compile(rb"\r(?![ \t]|$)")
"""Before a blank it is taken for one."""
_LONE = re.compile(rb"\r(?!\n)|(?<!\r)\n")
"""Either half of a line end alone."""
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass
class Said:
    """One response."""

    status: int = 0
    """0 where the head isn't whole."""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    """As far as it came."""
    ending: str = "open"
    """`complete`, `cut`, `open` where more is to come, or `malformed`."""
    rest: bytes = b""
    """What follows it."""
    odd: bool = False
    """A client may refuse it all the same."""


def reply_in(data: bytes, method: bytes, *, ended: bool) -> Said:
    """Return the response that these bytes are to a request of this method; `ended`: nothing follows them."""
    said = Said()
    try:
        _read(said, data, method, ended)
    except Malformed:
        said.ending = "malformed"
    except Incomplete:
        said.ending = "cut" if ended else "open"
    return said


def _read(said: Said, data: bytes, method: bytes, ended: bool) -> None:
    at = 0
    while True:
        version, status, headers, at = _head(data, at)
        if status == 101:
            raise Malformed
        if status >= 200:
            break
        # An interim response must not frame a body (RFC 9110, 8.6 and RFC 9112, 6.1).
        said.odd |= any(name in (b"content-length", b"transfer-encoding") for name, _ in headers)
    said.status, said.headers = status, headers
    said.odd |= any(name == b"upgrade" for name, _ in headers) or _LONE.search(data, 0, at) is not None
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and (lengths or version == b"0" or len(codings) > 1 or codings[0] != b"chunked"):
        raise Malformed
    if lengths and (len(lengths) > 1 or not re.fullmatch(rb"[0-9]+", lengths[0]) or int(lengths[0]) >= 1 << 64):
        raise Malformed
    if method == b"HEAD" or status in (204, 304):
        end = at
    elif codings:
        end = _chunked(said, data, at)
    elif lengths:
        end = at + int(lengths[0])
        said.body = data[at:end]
        if end > len(data):
            raise Incomplete
    else:
        said.body = data[at:]
        if not ended:
            raise Incomplete
        end = len(data)
    said.ending, said.rest = "complete", data[end:]
    said.odd |= bool(said.rest)


def _head(data: bytes, at: int) -> tuple[bytes, int, list[tuple[bytes, bytes]], int]:
    while data[at : at + 1] in (b"\r", b"\n"):  # as before a request (RFC 9112, 2.2)
        at += 1
    line, at = _line(data, at)
    found = _STATUS_LINE.fullmatch(line)
    if found is None:
        raise Malformed
    headers: list[tuple[bytes, bytes]] = []
    while True:
        line, at = _field_line(data, at)
        if not line:
            # What an interim response says goes nowhere.
            if found[2] >= b"200" and any(_CONTROL.search(part) for pair in headers for part in pair):
                raise Malformed
            return found[1], int(found[2]), headers, at
        if headers and line[:1] in b" \t":
            headers[-1] = headers[-1][0], headers[-1][1] + b" " + line.strip(b" \t")
            continue
        field_ = _FIELD.fullmatch(line)
        if field_ is None:
            raise Malformed
        headers.append((field_[1].lower(), field_[2]))


def _field_line(data: bytes, at: int) -> tuple[bytes, int]:
    """Return a line of a head, whose end may be a line feed alone (RFC 9112, 2.2)."""
    end = data.find(b"\n", at)
    line = data[at:] if end < 0 else data[at:end]
    if _BARE.search(line):
        raise Malformed
    if end < 0:
        raise Incomplete
    return line.removesuffix(b"\r").replace(b"\r", b""), end + 1


def _chunked(said: Said, data: bytes, at: int) -> int:
    try:
        said.body, end = _chunks(data, at)
    except Incomplete:
        said.body = _so_far(data, at)
        raise
    return end


def _so_far(data: bytes, at: int) -> bytes:
    """Return the bytes of chunks that came, the last of them perhaps not whole."""
    body = b""
    while (end := data.find(b"\r\n", at)) >= 0 and (size := int(re.split(rb"[; \t]", data[at:end])[0], 16)):
        body += data[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
    return body
