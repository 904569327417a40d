"""Requests that are long or encoded: what is known of them, and how little is done at a time."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Generator
from typing import TypeVar

import brotli
import pytest
import zstandard

from hivemind.providers import dialect as dialects
from hivemind.providers import encoding, outline
from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.outline import BYTES_PER_CHAR, SHORT, Outline
from hivemind.providers.paths import DIALECTS

T = TypeVar("T")
PACK: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=1),
    "zstd": zstandard.compress,
    "gzip, zstd": lambda data: zstandard.compress(gzip.compress(data)),
}


def done(work: Generator[None, None, T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def asked(body: bytes, coding: str = "identity", dialect: str = "anthropic", path: str = "/v1/messages") -> Facts:
    headers = [(b"content-encoding", coding.encode())]
    return done(DIALECTS[dialect].facts_in_steps(path, "", headers, PACK[coding](body)))


def conversation(size: int, **fields: object) -> bytes:
    text = 'He said "no", and that was \\ that.\n' * 20
    turn = {"role": "user", "content": [{"type": "text", "text": text}]}
    return json.dumps({"model": "m", "messages": [turn] * (size // len(json.dumps(turn))), **fields}).encode()


@pytest.mark.parametrize(
    ("size", "coding"),
    [
        *((100, coding) for coding in PACK),
        *(
            (size, coding)
            for size in (SHORT - 10_000, SHORT + 10_000, 4 * SHORT)
            for coding in ("identity", "gzip, zstd")
        ),
    ],
)
def test_a_long_body_says_what_a_short_one_does(size: int, coding: str) -> None:
    """Whatever its length and encoding, model, stream, limit, session and size are known."""
    body = conversation(size, stream=True, max_tokens=9, metadata={"user_id": "user_1_account__session_abc"})
    assert asked(body, coding) == Facts("m", True, len(body), 9, session="abc", form=StreamForm.SSE)


def test_pictures_dont_count_in_a_long_body() -> None:
    """Four megabytes of them count as three pictures, not as text."""
    picture = base64.b64encode(bytes(range(256)) * 4096).decode()
    source = {"type": "base64", "media_type": "image/png", "data": picture}
    body = conversation(1000, extra=[{"type": "image", "source": source}] * 3)
    assert asked(body).size_chars == len(body) - 3 * len(picture) + 3 * (len(picture) // BYTES_PER_CHAR)


@pytest.mark.parametrize(
    ("dialect", "path", "fields", "expected"),
    [
        ("openai_chat", "/v1/chat/completions", {"store": True}, {"continues_state": True}),
        ("openai_responses", "/v1/responses", {"previous_response_id": "r"}, {"continues_state": True}),
        ("google", "/v1beta/models/g:generateContent", {"generationConfig": {"maxOutputTokens": 7}}, {"model": "g"}),
        ("ollama", "/api/chat", {"options": {"num_predict": 7}}, {"max_output_tokens": 7, "stream": True}),
    ],
)
def test_every_dialect(dialect: str, path: str, fields: dict[str, object], expected: dict[str, object]) -> None:
    """Each finds its own fields, also those that stand within others."""
    found = asked(conversation(2 * SHORT, **fields), dialect=dialect, path=path)
    assert {name: getattr(found, name) for name in expected} == expected


def test_sound_isnt_read() -> None:
    """A long body that is no text counts by its size alone, as a short one does."""
    headers = [(b"content-type", b"audio/mpeg")]
    found = done(DIALECTS["plain"].facts_in_steps("/v1/audio/transcriptions", "", headers, bytes(2 * SHORT)))
    assert (found.size_chars, found.unread) == (2 * SHORT // BYTES_PER_CHAR, "")


@pytest.mark.parametrize("coding", [name for name in PACK if name != "identity"])
def test_a_bomb_is_given_up(coding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is forwarded with an estimate of its size and what was found before, and says why."""
    monkeypatch.setattr(dialects, "decoder_for", lambda headers: encoding.decoder_for(headers, 3 << 20))
    found = asked(b'{"model":"m","messages":"' + b"x" * (8 << 20), coding)
    assert (found.model, found.unread) == ("m", "the body unpacks to more than 3 MiB")
    assert 2 << 20 < found.size_chars <= 3 << 20


def test_a_body_of_nothing_but_parts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Megabytes of brackets aren't counted out."""
    monkeypatch.setattr(outline, "MOST_TOKENS", 200_000)
    body = b'{"model":"m",' + b'"a":{},' * (1 << 18)
    found = asked(body)
    assert (found.model, found.unread, found.size_chars) == ("m", "the JSON has too many parts", len(body))


@pytest.mark.parametrize("body", [b"--boundary" + b"\0" * SHORT, b" " * (SHORT + 10), b"[" * (SHORT + 10)])
def test_what_isnt_json_says_nothing(body: bytes) -> None:
    """A file or a form counts by its length, as a short one does, and nothing is said of it."""
    assert asked(body) == Facts(size_chars=len(body))


def test_broken_compression() -> None:
    """It may mean something to the upstream; here it counts by its length."""
    headers = [(b"content-encoding", b"gzip")]
    found = done(DIALECTS["anthropic"].facts_in_steps("/v1/messages", "", headers, b"no gzip"))
    assert found == Facts(size_chars=7, unread="the content encoding is broken")


def repeated(pack: Callable[[bytes], bytes], data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = pack(data)
    return data


MEMBER = gzip.compress(b"")
LONG = b'{"a":"' + b"x" * (12 << 20)
BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip of gzip": ("gzip, gzip", lambda: repeated(gzip.compress, LONG, 2)),
    "empty members": ("gzip", lambda: MEMBER * 50_000),
    "empty members packed": ("gzip, gzip", lambda: gzip.compress(MEMBER * 1_000_000, 1)),
    "empty frames": ("zstd", lambda: zstandard.compress(b"") * 50_000),
    "brotli": ("br", lambda: brotli.compress(LONG, quality=1)),
    "zstd four times": ("zstd, zstd, zstd, zstd", lambda: repeated(zstandard.compress, LONG, 4)),
    "plain": ("identity", lambda: b'{"a":"' + b'\\"' * (4 << 20)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_no_step_is_long(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps a bounded number of bytes is unpacked and looked at, and all together is bounded."""
    coding, body = BOMBS[name]
    unpacked = looked = steps = most = 0
    through, feed = encoding.Decoder.steps, Outline.feed

    def counting_steps(self: encoding.Decoder, data: bytes) -> Generator[bytes, None, None]:
        nonlocal unpacked, steps
        for piece in through(self, data):
            assert len(piece) <= 2 * encoding.PIECE
            unpacked += len(piece)
            steps += 1
            yield piece

    def counting_feed(self: Outline, data: bytes) -> int:
        nonlocal looked
        looked += len(data)
        return feed(self, data)

    monkeypatch.setattr(encoding.Decoder, "steps", counting_steps)
    monkeypatch.setattr(Outline, "feed", counting_feed)
    turns = total = 0
    for _ in DIALECTS["anthropic"].facts_in_steps("/", "", [(b"content-encoding", coding.encode())], body()):
        most = max(most, unpacked, looked)
        assert steps <= 100
        total += steps
        unpacked = looked = steps = 0
        turns += 1
    assert turns > 20
    assert most <= 1 << 20
    assert total <= 20_000
