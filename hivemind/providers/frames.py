"""Amazon's binary event streams (application/vnd.amazon.eventstream): frames of headers and a payload.

https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html describes the encoding.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BinasciiError
from struct import Struct as Packed
from struct import error as StructError
from zlib import crc32

import msgspec
from msgspec import Struct, field

from hivemind.providers import json_fields
from hivemind.providers.json_fields import Shape
from hivemind.providers.sse import MAX_RECORD

_PRELUDE = Packed("!III")
_LENGTH = Packed("!H")
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type; 6 and 7, bytes and text, state their length."""
_CRC = 4
_CHUNK = Shape("bytes:text")
_SAID = Shape("message")


class FrameSplitter(Struct):
    """Splitter of frames into blocks as of server-sent events, for the same readers: its type, its payload. The bytes
    that a frame of `invoke` wraps are an event of the model's own."""

    slice_bytes: int = 16 * 1024
    separator: bytes = b"\n\n"
    ends: tuple[bytes, ...] = ()
    takes_ours: bool = False
    """What asked for the stream has errors of this form, so one of ours can follow."""
    _data: bytearray = field(default_factory=bytearray)
    _broken: bool = False

    @property
    def is_between(self) -> bool:
        return self.takes_ours and not self._data and not self._broken

    def feed(self, data: bytes) -> list[bytes]:
        blocks: list[bytes] = []
        self._data += b"" if self._broken else data
        while len(self._data) >= _PRELUDE.size:
            total, headers, _ = _PRELUDE.unpack_from(self._data)
            if not _PRELUDE.size + headers + _CRC <= total <= MAX_RECORD:
                self._broken = True
                self._data.clear()
            if len(self._data) < total or self._broken:
                break
            start = _PRELUDE.size + headers
            names = _headers(bytes(self._data[_PRELUDE.size : start]))
            blocks.append(_block(names, bytes(self._data[start : total - _CRC])))
            del self._data[:total]
        return blocks

    def end(self) -> list[bytes]:
        return []


def _headers(data: bytes) -> dict[bytes, bytes]:
    found, at = {}, 0
    try:
        while at < len(data):
            name = data[at + 1 : (at := at + 1 + data[at])]
            kind = data[at]
            at += 1
            if (size := _SIZES.get(kind)) is None:
                (size,) = _LENGTH.unpack_from(data, at)
                at += _LENGTH.size
            found[name] = data[at : (at := at + size)]
    except (IndexError, StructError):
        pass
    return found


def _block(names: dict[bytes, bytes], payload: bytes) -> bytes:
    if names.get(b":message-type", b"event") != b"event":
        return b"event: error\ndata: " + msgspec.json.encode(
            {
                "type": (names.get(b":exception-type") or names.get(b":error-code") or b"").decode("latin-1"),
                "message": json_fields.text(_SAID.read(payload), "message")
                or names.get(b":error-message", b"").decode("utf-8", "replace"),
            }
        )
    wrapped = json_fields.text(_CHUNK.read(payload), "bytes")
    if wrapped:
        try:
            return b"data: " + b64decode(wrapped).replace(b"\n", b" ")
        except BinasciiError:
            return b""
    return b"event: %b\ndata: %b" % (names.get(b":event-type", b""), payload.replace(b"\n", b" "))


def frame(names: dict[str, str], payload: bytes) -> bytes:
    """Return a frame with headers of text."""
    headers = b"".join(
        bytes((len(name),)) + name.encode() + b"\x07" + _LENGTH.pack(len(value)) + value.encode()
        for name, value in names.items()
    )
    sizes = Packed("!II").pack(_PRELUDE.size + len(headers) + len(payload) + _CRC, len(headers))
    body = sizes + crc32(sizes).to_bytes(4) + headers + payload
    return body + crc32(body).to_bytes(4)
