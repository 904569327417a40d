"""The cases of Http11Probe (https://github.com/MDA2AV/Http11Probe), written anew from the rules that each is about.

The names are Http11Probe's, so that a result can be looked up in its documentation. `good` and `fair` are what it calls
"pass" and "warn": statuses, `closed` for a connection that ends without an answer, `waits` for one on which nothing
comes. What is only fair needs a reason: HiveMind is a proxy, and what an origin answers is the origin's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

HOST = "localhost"


@dataclass(frozen=True, slots=True)
class Case:
    """What is sent on one connection, step by step, and what may come back."""

    name: str
    steps: tuple[bytes, ...]
    """The next is sent once the one before it was answered, if the connection is still open."""
    good: str
    fair: str = ""
    why: str = ""
    """Why what is only fair is right here."""
    body: bytes | None = None
    """What a 200 must have as its body."""
    has: bytes = b""
    """A header that an answer of a good status must have."""
    closes: bool = False
    """The connection must end after the answer, whatever it is."""


def head(line: str, *headers: str, host: str | None = HOST) -> bytes:
    """The head of a request: its first line, and `Host` before the other headers."""
    hosts = [] if host is None else [f"Host: {host}"]
    return "\r\n".join([line, *hosts, *headers, "", ""]).encode("latin-1")


def get(*headers: str, target: str = "/", version: str = "HTTP/1.1", host: str | None = HOST) -> bytes:
    return head(f"GET {target} {version}", *headers, host=host)


def post(*headers: str, body: bytes = b"hello", target: str = "/", version: str = "HTTP/1.1") -> bytes:
    return head(f"POST {target} {version}", *headers) + body


def chunked(body: bytes, *headers: str) -> bytes:
    """A POST whose body is written out, framing included."""
    return post("Transfer-Encoding: chunked", *headers, body=body)


def _te(value: str, *, name: str = "Transfer-Encoding:") -> bytes:
    """A transfer encoding and a length of 5, with five bytes that are no chunk."""
    return post(f"{name}{value}", "Content-Length: 5")


_AGAIN = get()
_OK = b"5\r\nhello\r\n0\r\n\r\n"
_UPGRADE = ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")


def _refused(**cases: bytes) -> list[Case]:
    """Cases for which 400, or the end of the connection, is the only good answer."""
    return [Case(name.replace("_", "-"), (message,), "400 closed") for name, message in cases.items()]


# --- RFC 9110 and 9112: what a server must accept, and what it must not -----------------------------------------------

_ORIGINS = "the origin's answer, passed on"
_VALID = "valid by the grammar of RFC 9110 or 9112"

COMPLIANCE: list[Case] = [
    Case("COMP-BASELINE", (get(),), "2xx"),
    Case("RFC9112-2.2-BARE-LF-REQUEST-LINE", (b"GET / HTTP/1.1\nHost: localhost\r\n\r\n",), "400 closed"),
    Case("RFC9112-2.2-BARE-LF-HEADER", (get("X-Test: value", host="localhost\nX: y"),), "400 closed"),
    Case("RFC9112-5.1-OBS-FOLD", (get("X-Test: value", " continued"),), "400"),
    Case("RFC9110-5.6.2-SP-BEFORE-COLON", (get("X-Test : value"),), "400"),
    Case(
        "RFC9112-3-MULTI-SP-REQUEST-LINE",
        (get(target=" /"),),
        "400 closed",
        "2xx",
        "RFC 9112, 3: MAY parse on whitespace",
    ),
    Case("RFC9112-7.1-MISSING-HOST", (get(host=None),), "400"),
    Case("RFC9112-2.3-INVALID-VERSION", (get(version="HTTP/9.9"),), "400 505 closed"),
    Case("RFC9112-3-CR-ONLY-LINE-ENDING", (b"GET / HTTP/1.1\rHost: localhost\r\n\r\n",), "400"),
    Case("RFC9112-3.2-FRAGMENT-IN-TARGET", (get(target="/path#frag"),), "400 closed"),
    Case("RFC9112-2.3-HTTP09-REQUEST", (b"GET /\r\n",), "400 closed waits"),
    Case("RFC9110-5.4-DUPLICATE-HOST", (get("Host: other.example.com"),), "400"),
    *_refused(
        RFC9112_5_EMPTY_HEADER_NAME=get(": empty-name"),
        RFC9112_3_MISSING_TARGET=head("GET HTTP/1.1"),
        RFC9112_5_INVALID_HEADER_NAME=get("Bad[Name: value"),
        RFC9112_5_HEADER_NO_COLON=get("NoColonHere"),
        COMP_WHITESPACE_BEFORE_HEADERS=b"GET / HTTP/1.1\r\n \r\nHost: localhost\r\n\r\n",
        COMP_HOST_WITH_USERINFO=get(host="user@localhost"),
        COMP_HOST_WITH_PATH=get(host="localhost/path"),
        COMP_HOST_EMPTY_VALUE=get(host=""),
        COMP_ASTERISK_WITH_GET=get(target="*"),
        COMP_VERSION_MISSING_MINOR=get(version="HTTP/1"),
        COMP_VERSION_LEADING_ZEROS=get(version="HTTP/01.01"),
        COMP_VERSION_WHITESPACE=get(version="HTTP/ 1.1"),
        COMP_VERSION_CASE=get(version="http/1.1"),
        COMP_SPACE_IN_TARGET=get(target="/pa th"),
    ),
    Case("RFC9112-6.1-CL-NON-NUMERIC", (post("Content-Length: abc", body=b""),), "400 closed"),
    Case("RFC9112-6.1-CL-PLUS-SIGN", (post("Content-Length: +5"),), "400 closed"),
    Case("COMP-DUPLICATE-HOST-SAME", (get("Host: localhost"),), "400"),
    Case("COMP-OPTIONS-STAR", (head("OPTIONS * HTTP/1.1"),), "2xx"),
    Case("COMP-UNKNOWN-TE-501", (post("Transfer-Encoding: gzip", body=b""),), "400 501 closed"),
    Case("COMP-LEADING-CRLF", (b"\r\n\r\n" + get(),), "400 closed", "2xx", "RFC 9112, 2.2: SHOULD ignore it"),
    Case("COMP-ABSOLUTE-FORM", (get(target="http://localhost/"),), "2xx"),
    Case("COMP-METHOD-CASE", (head("get / HTTP/1.1"),), "400 405 501 closed"),
    Case("COMP-REQUEST-LINE-TAB", (head("GET\t/ HTTP/1.1"),), "400 closed"),
    # Bodies
    Case("COMP-POST-CL-BODY", (post("Content-Length: 5"),), "2xx", body=b"hello"),
    Case("COMP-POST-CL-ZERO", (post("Content-Length: 0", body=b""),), "2xx"),
    Case("COMP-POST-NO-CL-NO-TE", (post(body=b""),), "2xx"),
    Case("COMP-POST-CL-UNDERSEND", (post("Content-Length: 10"),), "400 closed waits"),
    Case("COMP-CHUNKED-BODY", (chunked(_OK),), "2xx", body=b"hello"),
    Case("COMP-CHUNKED-MULTI", (chunked(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"),), "2xx", body=b"hello world"),
    Case("COMP-CHUNKED-EMPTY", (chunked(b"0\r\n\r\n"),), "2xx", body=b""),
    Case("COMP-CHUNKED-NO-FINAL", (chunked(b"5\r\nhello\r\n"),), "400 closed waits"),
    Case("COMP-GET-WITH-CL-BODY", (get("Content-Length: 5") + b"hello",), "400 closed", "2xx", _VALID),
    Case("COMP-CHUNKED-EXTENSION", (chunked(b"5;ext=value\r\nhello\r\n0\r\n\r\n"),), "2xx", body=b"hello"),
    Case("COMP-CHUNKED-TRAILER-VALID", (chunked(b"5\r\nhello\r\n0\r\nX-Sum: abc\r\n\r\n"),), "2xx", body=b"hello"),
    Case("COMP-CHUNKED-HEX-UPPERCASE", (chunked(b"A\r\nhelloworld\r\n0\r\n\r\n"),), "2xx", body=b"helloworld"),
    # Upgrades
    Case("COMP-UPGRADE-POST", (post("Connection: Upgrade", "Upgrade: websocket", *_UPGRADE, body=b""),), "!101"),
    Case("COMP-UPGRADE-MISSING-CONN", (get("Upgrade: websocket", *_UPGRADE),), "!101"),
    Case("COMP-UPGRADE-UNKNOWN", (get("Connection: Upgrade", "Upgrade: totally-made-up/1.0"),), "!101"),
    Case(
        "COMP-UPGRADE-INVALID-VER",
        (get("Connection: Upgrade", "Upgrade: websocket", _UPGRADE[0], "Sec-WebSocket-Version: 99"),),
        "426 4xx 5xx",
    ),
    Case(
        "COMP-UPGRADE-HTTP10",
        (get("Connection: Upgrade", "Upgrade: websocket", *_UPGRADE, version="HTTP/1.0"),),
        "!101",
    ),
    # Methods
    Case(
        "COMP-METHOD-CONNECT", (head("CONNECT example.com:443 HTTP/1.1", host="example.com:443"),), "400 405 501 closed"
    ),
    Case("COMP-METHOD-TRACE", (head("TRACE / HTTP/1.1"),), "405 501 closed"),
    Case("COMP-TRACE-WITH-BODY", (head("TRACE / HTTP/1.1", "Content-Length: 5") + b"hello",), "400 405 501 closed"),
    Case(
        "COMP-TRACE-SENSITIVE", (head("TRACE / HTTP/1.1", "Authorization: Bearer secret-token-123"),), "405 501 closed"
    ),
    Case("COMP-HEAD-NO-BODY", (head("HEAD / HTTP/1.1"),), "2xx", body=b""),
    Case("COMP-UNKNOWN-METHOD", (head("FOOBAR / HTTP/1.1"),), "501 405 400 closed"),
    Case("COMP-405-ALLOW", (head("DELETE / HTTP/1.1"),), "405", has=b"allow"),
    Case("COMP-NO-CL-IN-204", (head("OPTIONS / HTTP/1.1"),), "204"),
    Case("COMP-OPTIONS-ALLOW", (head("OPTIONS / HTTP/1.1"),), "2xx", has=b"allow"),
    # Headers of requests and answers
    Case("COMP-EXPECT-UNKNOWN", (get("Expect: 200-ok"),), "417 closed"),
    Case("COMP-NO-1XX-HTTP10", (post("Expect: 100-continue", "Content-Length: 5", version="HTTP/1.0"),), "!1xx"),
    Case("COMP-CONNECTION-CLOSE", (get("Connection: close"),), "2xx", closes=True),
    Case("COMP-HTTP10-DEFAULT-CLOSE", (get(version="HTTP/1.0"),), "2xx", closes=True),
    Case("COMP-HTTP10-NO-HOST", (get(version="HTTP/1.0", host=None),), "400 closed"),
    Case("COMP-HTTP12-VERSION", (get(version="HTTP/1.2"),), "", "2xx 505 closed", "Http11Probe has no better answer"),
    Case("COMP-RANGE-POST", (post("Content-Length: 5", "Range: bytes=0-10"),), "200"),
    Case("COMP-RANGE-INVALID", (get("Range: bytes=abc-xyz"),), "200 416"),
    Case("COMP-DATE-HEADER", (get(),), "2xx", has=b"date"),
    Case("COMP-DATE-FORMAT", (get(),), "2xx", has=b"date"),
    Case("COMP-CONTENT-TYPE", (get(),), "2xx", has=b"content-type"),
    Case("COMP-LONG-URL-OK", (get(target="/" + "a" * 7900),), "!414"),
    Case(
        "COMP-DUPLICATE-CT",
        (post("Content-Length: 5", "Content-Type: text/plain", "Content-Type: text/html"),),
        "400 closed",
        "2xx",
        _ORIGINS,
    ),
    Case("COMP-ACCEPT-NONSENSE", (get("Accept: application/x-nonsense"),), "406", "2xx", _ORIGINS),
    Case("COMP-POST-UNSUPPORTED-CT", (post("Content-Length: 5", "Content-Type: application/x-nonsense"),), "415 2xx"),
]

# --- What is malformed, or too large ----------------------------------------------------------------------------------

_GARBAGE = random.Random(42).randbytes(256)

MALFORMED: list[Case] = [
    Case("MAL-BINARY-GARBAGE", (_GARBAGE,), "400 closed waits"),
    Case("MAL-LONG-URL", (get(target="/" + "A" * 100_000),), "400 414 431 closed"),
    Case("MAL-LONG-HEADER-VALUE", (get("X-Big: " + "B" * 100_000),), "400 431 closed"),
    Case("MAL-MANY-HEADERS", (get(*[f"X-H-{n}: value" for n in range(10_000)]),), "400 431 closed"),
    Case("MAL-LONG-HEADER-NAME", (get("A" * 100_000 + ": val"),), "400 431 closed"),
    Case("MAL-LONG-METHOD", (head("A" * 100_000 + " / HTTP/1.1"),), "400 closed"),
    Case("MAL-INCOMPLETE-REQUEST", (get("X-Test: value")[:-4],), "400 closed waits"),
    Case("MAL-EMPTY-REQUEST", (b"",), "400 closed waits"),
    Case("MAL-WHITESPACE-ONLY-LINE", (b"   \r\n\r\n",), "400 closed waits"),
    Case("MAL-H2-PREFACE", (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",), "400 505 closed waits"),
    *_refused(
        MAL_NUL_IN_URL=get(target="/\0test"),
        MAL_CONTROL_CHARS_HEADER=get("X-Test: abc\x07\x08\x0bdef"),
        MAL_NON_ASCII_HEADER_NAME=get("X-T\xc3\xabst: value"),
        MAL_NON_ASCII_URL=get(target="/caf\xc3\xa9"),
        MAL_CL_OVERFLOW=post("Content-Length: 99999999999999999999", body=b""),
        MAL_NUL_IN_HEADER_VALUE=get("X-Test: val\0ue"),
        MAL_CHUNK_SIZE_OVERFLOW=chunked(b"FFFFFFFFFFFFFFFF0\r\nhello\r\n0\r\n\r\n"),
        MAL_CL_EMPTY=post("Content-Length: ", body=b""),
        MAL_URL_OVERLONG_UTF8=get(target="/\xc0\xaf"),
    ),
    Case("MAL-CL-TAB-BEFORE-VALUE", (post("Content-Length:\t5"),), "400 closed", "2xx", _VALID),
    Case("MAL-URL-BACKSLASH", (get(target="/path\\file"),), "400 closed"),
    Case("MAL-URL-PERCENT-NULL", (get(target="/path%00.html"),), "400 closed"),
    Case("MAL-URL-PERCENT-CRLF", (get(target="/path%0d%0aX-Injected:%20true"),), "400 closed"),
    Case(
        "MAL-CHUNK-EXT-64K",
        (chunked(b"5;ext=" + b"a" * 65_536 + b"\r\nhello\r\n0\r\n\r\n"),),
        "400 431 closed",
        "2xx",
        "one reading may hold more than is kept",
    ),
    Case(
        "MAL-RANGE-OVERLAPPING", (get("Range: bytes=" + ",".join(["0-"] * 1000)),), "", "200 206 400 416 431", _ORIGINS
    ),
    Case(
        "MAL-POST-CL-HUGE-NO-BODY", (post("Content-Length: 999999999", body=b""),), "400 closed waits"
    ),  # allowed by max_body_mb here, else 413
]

# --- Names that another server might take for those that frame a body -------------------------------------------------

_ELEVEN = ("Content-Length: 11",)

_ANOTHER = "another header, passed on as it is"

NORMALIZATION: list[Case] = [
    Case(name, (post(*_ELEVEN, header, body=b"hello world", target="/echo"),), "4xx 5xx closed", fair, why)
    for name, header, fair, why in (
        ("NORM-UNDERSCORE-CL", "Content_Length: 99", "2xx", _ANOTHER),
        ("NORM-SP-BEFORE-COLON-CL", "Content-Length : 5", "", ""),
        ("NORM-TAB-IN-NAME", "Content\tLength: 99", "", ""),
        ("NORM-CASE-TE", "TRANSFER-ENCODING: chunked", "", ""),
        ("NORM-UNDERSCORE-TE", "Transfer_Encoding: chunked", "2xx", _ANOTHER),
    )
]

# --- Smuggling --------------------------------------------------------------------------------------------------------

_SMUGGLED = get()
_HIDDEN = b"0\r\n\r\n" + _SMUGGLED


def _hidden(*headers: str, body: bytes = _HIDDEN) -> bytes:
    """A POST with another request in what is its body by one reading and the next request by the other."""
    return post(*[header.replace("N", str(len(body))) for header in headers], body=body)


_IN_A_CHUNK = get("Content-Length: 7")

SMUGGLING: list[Case] = [
    *_refused(
        SMUG_DUPLICATE_CL=post("Content-Length: 5", "Content-Length: 10", body=b"helloworld"),
        SMUG_TE_SP_BEFORE_COLON=_te(" chunked", name="Transfer-Encoding :"),
        SMUG_CL_NEGATIVE=post("Content-Length: -1", body=b""),
        SMUG_CL_COMMA_DIFFERENT=post("Content-Length: 5, 10"),
        SMUG_TE_NOT_FINAL_CHUNKED=post("Transfer-Encoding: chunked, gzip", body=b"0\r\n\r\n"),
        SMUG_TE_HTTP10=post("Transfer-Encoding: chunked", "Content-Length: 5", version="HTTP/1.0"),
        SMUG_CHUNK_BARE_SEMICOLON=chunked(b"5;\r\nhello\r\n0\r\n\r\n"),
        SMUG_CHUNK_EXT_INVALID_TOKEN=chunked(b"5;bad[=x\r\nhello\r\n0\r\n\r\n"),
        SMUG_BARE_CR_HEADER_VALUE=post("Content-Length: 5", "X-Test: val\rue"),
        SMUG_CL_OCTAL=post("Content-Length: 0o5"),
        SMUG_CHUNK_UNDERSCORE=chunked(b"1_0\r\nhello world!!!!!\r\n0\r\n\r\n"),
        SMUG_TE_EMPTY_VALUE=_te(" "),
        SMUG_TE_DUPLICATE_HEADERS=post(
            "Transfer-Encoding: chunked", "Transfer-Encoding: identity", "Content-Length: 5"
        ),
        SMUG_CHUNK_HEX_PREFIX=chunked(b"0x5\r\nhello\r\n0\r\n\r\n"),
        SMUG_CHUNK_SIZE_PLUS=chunked(b"+5\r\nhello\r\n0\r\n\r\n"),
        SMUG_CHUNK_SIZE_TRAILING_OWS=chunked(b"5 \r\nhello\r\n0\r\n\r\n"),
        SMUG_CL_HEX_PREFIX=post("Content-Length: 0x5"),
        SMUG_CL_INTERNAL_SPACE=post("Content-Length: 1 0", body=b"hello12345"),
        SMUG_CHUNK_LEADING_SP=chunked(b" 5\r\nhello\r\n0\r\n\r\n"),
        SMUG_CHUNK_MISSING_TRAILING_CRLF=chunked(b"5\r\nhello0\r\n\r\n"),
        SMUG_CHUNK_SPILL=chunked(b"5\r\nhello!!\r\n0\r\n\r\n"),
        SMUG_CHUNK_EXT_CTRL=chunked(b"5;\0ext\r\nhello\r\n0\r\n\r\n"),
        SMUG_CHUNK_EXT_CR=chunked(b"5;a\rX\r\nhello\r\n0\r\n\r\n"),
        SMUG_TE_VTAB=_te(" \x0bchunked"),
        SMUG_TE_FORMFEED=_te(" \x0cchunked"),
        SMUG_TE_NULL=_te(" chunked\0"),
        SMUG_CHUNK_NEGATIVE=chunked(b"-1\r\nhello\r\n0\r\n\r\n"),
        SMUG_CL_UNDERSCORE=post("Content-Length: 1_0", body=b"helloworld"),
        SMUG_CL_NEGATIVE_ZERO=post("Content-Length: -0", body=b""),
        SMUG_MULTIPLE_HOST_COMMA=get(host="localhost, other.example.com"),
        SMUG_CHUNK_BARE_CR_TERM=chunked(b"5\rhello\r\n0\r\n\r\n"),
        SMUG_CL_TE_BOTH=post(
            "Content-Length: 24", "Transfer-Encoding: chunked", body=b"D\r\nhello-bananas\r\n0\r\n\r\n"
        ),
        SMUG_CLTE_PIPELINE=post("Content-Length: 4", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        SMUG_TECL_PIPELINE=post("Transfer-Encoding: chunked", "Content-Length: 30", body=b"0\r\n\r\n"),
        SMUG_TE_DOUBLE_CHUNKED=_te(" chunked, chunked"),
        SMUG_TE_CASE_MISMATCH=_te(" Chunked"),
        SMUG_TE_LEADING_COMMA=_te(" , chunked"),
        SMUG_TE_TRAILING_COMMA=_te(" chunked,"),
        SMUG_TE_OBS_FOLD=_te("\r\n chunked"),
        SMUG_TE_TAB_BEFORE_VALUE=_te("\tchunked"),
        SMUG_CHUNKED_WITH_PARAMS=_te(" chunked;ext=val"),
        SMUG_CHUNK_EXT_LF=chunked(b"5;\nhello\r\n0\r\n\r\n"),
        SMUG_CHUNK_LF_TERM=chunked(b"5\r\nhello\n0\r\n\r\n"),
        SMUG_CHUNK_LF_TRAILER=chunked(b"5\r\nhello\r\n0\r\n\n"),
        SMUG_CL_COMMA_SAME=post("Content-Length: 5, 5"),
        SMUG_CL_COMMA_TRIPLE=post("Content-Length: 5, 5, 5"),
        SMUG_ABSOLUTE_URI_HOST_MISMATCH=get(target="http://other.example.com/"),
    ),
    Case("SMUG-TE-XCHUNKED", (_te(" xchunked"),), "400 501 closed"),
    Case("SMUG-TE-TRAILING-SPACE", (_te(" chunked "),), "400 501 closed"),
    Case("SMUG-TE-IDENTITY", (_te(" identity"),), "400 501 closed"),
    Case("SMUG-CL-LEADING-ZEROS", (post("Content-Length: 005"),), "400 closed", "2xx", _VALID, body=b"hello"),
    Case("SMUG-CL-TRAILING-SPACE", (post("Content-Length: 5 "),), "400 closed", "2xx", _VALID, body=b"hello"),
    Case("SMUG-CL-EXTRA-LEADING-SP", (post("Content-Length:  5"),), "400 closed", "2xx", _VALID, body=b"hello"),
    Case("SMUG-CL-DOUBLE-ZERO", (post("Content-Length: 00", body=b""),), "400 closed", "2xx", _VALID, body=b""),
    Case(
        "SMUG-CL-LEADING-ZEROS-OCTAL",
        (post("Content-Length: 0200", body=b"A" * 200),),
        "400 closed",
        "2xx",
        _VALID,
        body=b"A" * 200,
    ),
    Case(
        "SMUG-TRANSFER_ENCODING",
        (_te(" chunked", name="Transfer_Encoding:"),),
        "400 closed",
        "2xx",
        _VALID,
        body=b"hello",
    ),
    Case(
        "SMUG-EXPECT-100-CL",
        (post("Content-Length: 5", "Expect: 100-continue"),),
        "400 closed",
        "2xx",
        _VALID,
        body=b"hello",
    ),
    *(
        Case(
            name,
            (chunked(b"5\r\nhello\r\n0\r\n%b\r\n\r\n" % trailer),),
            "400 closed",
            "2xx",
            "trailers are dropped",
            body=b"hello",
        )
        for name, trailer in (
            ("SMUG-TRAILER-CL", b"Content-Length: 50"),
            ("SMUG-TRAILER-TE", b"Transfer-Encoding: chunked"),
            ("SMUG-TRAILER-HOST", b"Host: evil.example.com"),
            ("SMUG-TRAILER-AUTH", b"Authorization: Bearer evil"),
            ("SMUG-TRAILER-CONTENT-TYPE", b"Content-Type: text/evil"),
        )
    ),
    Case("SMUG-HEAD-CL-BODY", (head("HEAD / HTTP/1.1", "Content-Length: 5") + b"hello",), "400 closed", "2xx", _VALID),
    Case(
        "SMUG-OPTIONS-CL-BODY",
        (head("OPTIONS / HTTP/1.1", "Content-Length: 5") + b"hello",),
        "400 closed",
        "2xx",
        _VALID,
    ),
    # Another request follows, or is hidden in the body of the first.
    *(
        Case(name, (message, _AGAIN), "400 closed")
        for name, message in (
            ("SMUG-CLTE-CONN-CLOSE", post("Content-Length: 5", "Transfer-Encoding: chunked", body=b"0\r\n\r\n")),
            ("SMUG-TECL-CONN-CLOSE", post("Transfer-Encoding: chunked", "Content-Length: 5", body=b"0\r\n\r\n")),
            ("SMUG-CLTE-DESYNC", post("Content-Length: 6", "Transfer-Encoding: chunked", body=b"0\r\n\r\nX")),
            ("SMUG-TECL-DESYNC", post("Transfer-Encoding: chunked", "Content-Length: 30", body=b"0\r\n\r\nX")),
            (
                "SMUG-OPTIONS-TE-OBS-FOLD",
                head("OPTIONS / HTTP/1.1", "Transfer-Encoding:", " chunked", "Content-Length: 5") + b"hello",
            ),
            ("SMUG-CHUNK-INVALID-SIZE-DESYNC", chunked(b"+0\r\n\r\nX")),
            ("SMUG-CLTE-SMUGGLED-GET", _hidden("Content-Length: N", "Transfer-Encoding: chunked")),
            (
                "SMUG-CLTE-SMUGGLED-HEAD",
                _hidden("Content-Length: N", "Transfer-Encoding: chunked", body=_HIDDEN.replace(b"GET", b"HEAD")),
            ),
            ("SMUG-CLTE-SMUGGLED-GET-CL-PLUS", _hidden("Content-Length: +N", "Transfer-Encoding: chunked")),
            ("SMUG-CLTE-SMUGGLED-GET-CL-NON-NUMERIC", _hidden("Content-Length: Nx", "Transfer-Encoding: chunked")),
            ("SMUG-CLTE-SMUGGLED-GET-TE-OBS-FOLD", _hidden("Transfer-Encoding:\r\n chunked", "Content-Length: N")),
            ("SMUG-CLTE-SMUGGLED-GET-TE-TRAILING-SPACE", _hidden("Content-Length: N", "Transfer-Encoding: chunked ")),
            ("SMUG-CLTE-SMUGGLED-GET-TE-LEADING-COMMA", _hidden("Content-Length: N", "Transfer-Encoding: , chunked")),
            ("SMUG-CLTE-SMUGGLED-GET-TE-CASE-MISMATCH", _hidden("Content-Length: N", "Transfer-Encoding: Chunked")),
            (
                "SMUG-TE-DUPLICATE-HEADERS-SMUGGLED-GET",
                _hidden("Transfer-Encoding: chunked", "Transfer-Encoding: identity", "Content-Length: N"),
            ),
            (
                "SMUG-TECL-SMUGGLED-GET",
                post(
                    "Transfer-Encoding: chunked",
                    "Content-Length: 4",
                    body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(_IN_A_CHUNK), _IN_A_CHUNK),
                ),
            ),
            (
                "SMUG-DUPLICATE-CL-SMUGGLED-GET",
                _hidden("Content-Length: 4", "Content-Length: N", body=b"PING" + _SMUGGLED),
            ),
        )
    ),
    Case(
        "SMUG-GET-CL-PREFIX-DESYNC",
        (get(f"Content-Length: {len(_SMUGGLED) - 2}") + _SMUGGLED[:-2], b"\r\n" + _AGAIN),
        "2xx",
    ),
    Case(
        "SMUG-CL0-BODY-POISON",
        (post("Content-Length: 0", body=b"X"), _AGAIN),
        "400 closed",
        "2xx",
        "the X begins the next request, which is refused",
    ),
    Case("SMUG-GET-CL-BODY-DESYNC", (get("Content-Length: 5") + b"hello", _AGAIN), "2xx"),
    Case("SMUG-OPTIONS-CL-BODY-DESYNC", (head("OPTIONS / HTTP/1.1", "Content-Length: 5") + b"hello", _AGAIN), "2xx"),
    Case("SMUG-EXPECT-100-CL-DESYNC", (post("Content-Length: 5", "Expect: 100-continue"), _AGAIN), "2xx"),
    Case("SMUG-PIPELINE-SAFE", (_AGAIN, _AGAIN), "2xx"),
]

# --- Cookies and conditional requests: an origin's business, so they must reach it as they are ------------------------


def _cookies(*values: str, target: str = "/cookie") -> bytes:
    return get(*[f"Cookie: {value}" for value in values], target=target)


COOKIES: list[Case] = [
    Case("COOK-ECHO", (_cookies("foo=bar"),), "2xx", body=b"foo=bar\n"),
    Case("COOK-OVERSIZED", (_cookies("big=" + "A" * 65_536),), "400 431 2xx"),
    Case("COOK-EMPTY", (_cookies(""),), "2xx 400"),
    Case("COOK-NUL", (_cookies("foo=\0bar"),), "400 closed"),
    Case("COOK-CONTROL-CHARS", (_cookies("foo=\x01\x02\x03"),), "400 closed"),
    Case("COOK-MANY-PAIRS", (_cookies("; ".join(f"k{n}=v{n}" for n in range(1000))),), "2xx 400 431"),
    Case("COOK-MALFORMED", (_cookies("===;;;"),), "2xx 400", body=b"===;;;\n"),
    Case("COOK-MULTI-HEADER", (_cookies("a=1", "b=2"),), "2xx", body=b"a=1\nb=2\n"),
    Case("COOK-PARSED-BASIC", (_cookies("foo=bar"),), "2xx", body=b"foo=bar\n"),
    Case("COOK-PARSED-MULTI", (_cookies("a=1; b=2; c=3"),), "2xx", body=b"a=1; b=2; c=3\n"),
    Case("COOK-PARSED-EMPTY-VAL", (_cookies("foo="),), "2xx", body=b"foo=\n"),
    Case("COOK-PARSED-SPECIAL", (_cookies("a=hello world; b=x=y"),), "2xx", body=b"a=hello world; b=x=y\n"),
]


def _conditional(name: str, status: str, *headers: str) -> Case:
    return Case(name, (_AGAIN, get(*headers)), status)


CONDITIONAL: list[Case] = [
    _conditional("CAP-ETAG-304", "304", 'If-None-Match: "v1"'),
    _conditional("CAP-LAST-MODIFIED-304", "304", "If-Modified-Since: Sat, 21 Nov 2026 10:00:00 GMT"),
    Case("CAP-ETAG-IN-304", (_AGAIN, get('If-None-Match: "v1"')), "304", has=b"etag"),
    _conditional(
        "CAP-INM-PRECEDENCE", "304", 'If-None-Match: "v1"', "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT"
    ),
    _conditional("CAP-INM-WILDCARD", "304", "If-None-Match: *"),
    _conditional("CAP-IMS-FUTURE", "2xx", "If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT"),
    _conditional("CAP-IMS-INVALID", "2xx", "If-Modified-Since: not-a-date"),
    _conditional("CAP-INM-UNQUOTED", "2xx", "If-None-Match: v1"),
    _conditional("CAP-ETAG-WEAK", "304", 'If-None-Match: W/"v1"'),
]

CASES = [*COMPLIANCE, *MALFORMED, *NORMALIZATION, *SMUGGLING, *COOKIES, *CONDITIONAL]
