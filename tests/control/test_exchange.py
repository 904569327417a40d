"""What isn't HiveMind, or a proxy gone mad: a command ends soon, in one line, and holds little of what it was sent."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest
from control.kit import TOKEN, proven

from hivemind.cli import client as client_module
from hivemind.cli.client import ProxyClient, ProxyError
from hivemind.control import exchange
from hivemind.control.discovery import Token, parse_address

_HEAD = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _HEAD + b"transfer-encoding: chunked\r\n\r\n"


def slowly(parts: Iterable[bytes]) -> Iterator[bytes]:
    """One part after the other, with a pause between."""
    for part in parts:
        time.sleep(0.01)
        yield part


def forever(head: bytes, part: bytes) -> Iterator[bytes]:
    return itertools.chain([head], itertools.repeat(part))


ANSWERS: dict[str, Callable[[], Iterable[bytes]]] = {
    "endless": lambda: forever(_HEAD + b"\r\n", b"x" * 65_536),
    "endless chunks": lambda: forever(_CHUNKED, b"10000\r\n" + b"x" * 65_536 + b"\r\n"),
    "a length beyond all": lambda: forever(_HEAD + b"content-length: 999999999999999\r\n\r\n", b"x" * 65_536),
    "endless heads": lambda: slowly(forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 40)),
    "many fields": lambda: forever(_HEAD, b"a: b\r\n"),
    "an endless field": lambda: forever(_HEAD, b"a" * 65_536),
    "a drip": lambda: slowly(forever(_HEAD + b"content-length: 100000\r\n\r\n", b"x")),
    "a head in drips": lambda: slowly(forever(b"HTTP/1.1", b" ")),
    "trailers": lambda: slowly(forever(_HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n")),
    "nothing": lambda: slowly(itertools.repeat(b"", 80)),
    "closes at once": lambda: [],
    "closes early": lambda: [_HEAD + b"content-length: 100\r\n\r\n{"],
    "deep": lambda: [_HEAD + b"content-length: 200000\r\n\r\n" + b"[" * 200_000],
    "deep within": lambda: [_HEAD + b"content-length: 200006\r\n\r\n" + b'{"\xc3\xa9":' + b"[" * 200_000],
    "not UTF-8": lambda: [_HEAD + b'content-length: 4\r\n\r\n"\xff\\"'],
    "wrong types": lambda: [_HEAD + b'content-length: 26\r\n\r\n{"snapshot":5,"curves":{}}'],
    "a redirect": lambda: [b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n"],
    "no status": lambda: [b"HTTP/1.1 abc OK\r\n\r\n"],
    "a bad chunk": lambda: [_HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n"],
    "another protocol": lambda: [b"SSH-2.0-OpenSSH\r\n"],
}


@contextlib.contextmanager
def listening(answer: Iterable[bytes], *, proves: bool) -> Iterator[str]:
    """Something on a port that answers so, if it proves after its proof."""

    def serve() -> None:
        with contextlib.suppress(OSError), server.accept()[0] as connection:
            asked = connection.recv(65_536).decode()
            if proves:
                body = proven(asked.split()[1])
                connection.sendall(_HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
                connection.recv(65_536)
            for part in answer:
                connection.sendall(part)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("proves", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
def test_bounds(name: str, proves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is answered, before the proof or after it."""
    monkeypatch.setattr(exchange, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(client_module, "_ANSWER_WITHIN_S", 0.5)
    with listening(ANSWERS[name](), proves=proves) as url:
        client = ProxyClient(parse_address(url), Token(TOKEN, "its note"), "ops")
        with pytest.raises(ProxyError) as caught:
            client.world()
    text = str(caught.value)
    assert "\n" not in text
    assert TOKEN not in text
    assert len(text) < 300
