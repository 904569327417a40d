"""Most events of a stream aren't parsed: what a tap says at the end is what it says having parsed each."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemind.providers.anthropic import AnthropicReader
from hivemind.providers.base import TapState
from hivemind.providers.google import GoogleReader
from hivemind.providers.ollama import OllamaReader
from hivemind.providers.openai import ChatReader, ResponsesReader
from hivemind.providers.plain import PlainReader
from hivemind.providers.sse import LineSplitter, Splitter, SseSplitter
from hivemind.providers.taps import Reader, StreamTap, end_through, feed_through
from hivemind.records import replace

Json = dict[str, object]
MAKE: dict[str, tuple[type[Reader], type[Splitter]]] = {
    "anthropic": (AnthropicReader, SseSplitter),
    "chat": (ChatReader, SseSplitter),
    "responses": (ResponsesReader, SseSplitter),
    "google": (GoogleReader, SseSplitter),
    "plain": (PlainReader, SseSplitter),
    "ollama": (OllamaReader, LineSplitter),
    "ndjson chat": (ChatReader, LineSplitter),
}


def tap(name: str, *, skims: bool) -> StreamTap:
    """A tap as in use, or one that parses every event."""
    make, splitter = MAKE[name]

    class Parser(make):  # type: ignore[misc, valid-type]
        def read(self, record: bytes) -> None:
            if not self.state.failed:
                self.record(record)

    return StreamTap(make() if skims else Parser(), splitter(), None)


def cut(data: bytes, seed: int, longest: int) -> list[bytes]:
    """Cut at random places, after each event (0), or before each (-1)."""
    if longest < 0:
        return re.split(rb"(?=event: )|(?<!\n)(?=data: )|(?<=\n)(?=\{)", data)
    if longest == 0:
        return [part + b"\n\n" for part in data.split(b"\n\n") if part] if b"\n\n" in data else data.splitlines(True)
    chance, pieces, at = random.Random(seed), list[bytes](), 0
    while at < len(data):
        size = chance.randint(1, longest)
        pieces.append(data[at : at + size])
        at += size
    return pieces


TEXTS = [
    *("word", " ", "", "Gr\u00fc\u00dfe", "e\u0301\U0001f600", "a longer piece of text than most", '{"a": [1, "x"]}'),
    *('"usage"', '"error"', '"finish_reason":"stop"', "usage", "error", "done", "\n\n", "\r\n", "\\u0041", '"}}'),
    *("event: message_stop", "data: [DONE]", '"done":true', '"obfuscation":"'),
]
"""Of what is searched for, among others."""
MEMBERS = {"text_delta": "text", "input_json_delta": "partial_json"}


def counts(chance: random.Random, *names: str) -> Json:
    return {name: chance.choice([0, 5, chance.randint(0, 10**6)]) for name in names if chance.random() < 0.6}


def anthropic(chance: random.Random) -> Json:
    kind = chance.choice(["text_delta"] * 6 + ["input_json_delta", "signature_delta", "error", "ping", "message_stop"])
    if kind.endswith("_delta"):
        delta = {"type": kind, MEMBERS.get(kind, "other"): chance.choice(TEXTS)}
        return {"type": "content_block_delta", "index": chance.randint(0, 12), "delta": delta}
    usage = counts(chance, "input_tokens", "output_tokens", "cache_read_input_tokens")
    if kind == "ping":
        others: list[Json] = [
            {"type": kind},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
            {"type": "message_start", "message": {"usage": usage}},
        ]
        return chance.choice(others)
    return {"type": kind, "error": {"type": "overloaded_error", "message": chance.choice(TEXTS)}}


def chat(chance: random.Random) -> Json:
    text = chance.choice(TEXTS)
    if chance.random() < 0.05:
        others: list[Json] = [
            {"id": "c-1", "choices": [], "usage": counts(chance, "prompt_tokens", "completion_tokens")},
            {"error": {"message": text, "code": "rate_limit_exceeded"}},
        ]
        return chance.choice(others)
    delta: Json = {"content": text}
    if chance.random() < 0.1:
        delta = chance.choice([{"tool_calls": [{"index": 0, "function": {"arguments": text}}]}, {"role": "x"}, {}])
    finish = "stop" if chance.random() < 0.05 else chance.choice([None, None, None, ""])
    chunk: Json = {"id": "c-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    if chance.random() < 0.3:
        chunk["usage"] = chance.choice([None, None, {}, counts(chance, "prompt_tokens", "completion_tokens")])
    if chance.random() < 0.2:
        chunk |= chance.choice([{"obfuscation": "aXb"}, {"error": None}, {"error": {"code": 429}}, {"error": ""}])
    return chunk


def responses(chance: random.Random) -> Json:
    kind = chance.choice(["response.output_text.delta"] * 8 + ["response.x.delta", "response.completed", "error"])
    if kind.endswith(".delta"):
        return {"type": kind, "sequence_number": chance.randint(0, 2000), "delta": chance.choice(TEXTS)}
    usage = counts(chance, "input_tokens", "output_tokens")
    kind = chance.choice([kind, "response.created", "response.failed", "response.output_item.done"])
    return {"type": kind, "code": "server_error", "response": {"usage": usage}}


def google(chance: random.Random) -> Json:
    candidate: Json = {"content": {"parts": [{"text": chance.choice(TEXTS)}]}}
    if chance.random() < 0.1:
        candidate["finishReason"] = "STOP"
    return {"candidates": [candidate], "usageMetadata": counts(chance, "promptTokenCount", "candidatesTokenCount")}


def ollama(chance: random.Random) -> Json:
    text = chance.choice(TEXTS)
    if chance.random() < 0.03:
        return {"error": text}
    done = chance.choice([False] * 15 + [None, True])
    usage = {} if chance.random() < 0.8 else counts(chance, "eval_count", "prompt_eval_count")
    return {"message": {"role": "assistant", "content": text}, "done": done, **usage}


def plain(chance: random.Random) -> Json:
    return {"text": chance.choice(TEXTS), "usage": counts(chance, "input_tokens", "output_tokens")}


EVENTS: dict[str, Callable[[random.Random], Json]] = {
    "anthropic": anthropic,
    "chat": chat,
    "responses": responses,
    "google": google,
    "plain": plain,
    "ollama": ollama,
    "ndjson chat": chat,
}
LAST = 'event: message_stop\rdata: {"type":"message_stop"}\r\revent: error\rdata: {"error":{"code":429}}\n\n'
SPELLINGS: list[Callable[[Json], str]] = [
    lambda event: json.dumps(event, ensure_ascii=False, separators=(",", ":")),
    lambda event: json.dumps(event),
    lambda event: json.dumps(event, separators=(",", " : ")),
    lambda event: json.dumps(event).replace('"usage"', '"us\\u0061ge"').replace('"error"', '"\\u0065rror"'),
    lambda event: json.dumps(event)[:-1],
]


def framed(event: Json, spelling: int, framing: int, *, lines: bool) -> bytes:
    """One record with its end: as most servers write it, or in another way that the format allows."""
    text = SPELLINGS[spelling](event)
    if lines:
        return text.encode() + (b"\r\n" if framing == 1 else b"\n")
    kind = event.get("type")
    name = f"event: {kind}\n" if kind else ""
    data = f"{name}data: {text}\n\n"
    if framing == 1:
        data = data.replace("\n", "\r\n")
    elif framing == 2:
        data = f"data:{text}\n{name}\n"
    elif framing == 3:
        data = f": comment\n\n{data}"
    elif framing == 4:
        data = f"id: 1\n{name}data: " + text.replace(", ", ",\ndata: ") + "\n\n"
    elif framing == 5:
        data = f"data: {text}\n\n"
    elif framing == 6:
        data = data[:-1]  # the next event's lines belong to this one
    elif framing == 7:
        data = data.replace("data: ", "data: {}\rdata: ", 1)
    elif framing == 8:
        data = f"{data[:-2]}\r\r{LAST}"  # two events
    elif framing == 9:
        data = f"{data[:-1]}event: message_stop\n\n"
    return data.encode()


def stream_of(name: str, chance: random.Random) -> bytes:
    """A stream of some events, most of them as servers write them."""
    parts = [chance.choice([b"", b"\xef\xbb\xbf"])]
    for _ in range(chance.randint(0, 25)):
        spelling = chance.randrange(len(SPELLINGS)) if chance.random() < 0.1 else 0
        framing = chance.randrange(10) if chance.random() < 0.1 else 0
        one = framed(EVENTS[name](chance), spelling, framing, lines=MAKE[name][1] is LineSplitter)
        parts.append(one * chance.choice([1] * 12 + [2, 2, 40]))
    parts.append(chance.choice([b"", b"data: [DONE]\n\n"]))
    return b"".join(parts)


@pytest.mark.parametrize("name", MAKE)
@settings(max_examples=examples(60, few=8), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_all_but_the_estimate(name: str, seed: int) -> None:
    """However a stream is written and cut, a tap says after each piece what one says that parses every event."""
    chance = random.Random(seed)
    for _ in range(2):
        stream = stream_of(name, chance)
        skimming, parsing = tap(name, skims=True), tap(name, skims=False)
        for piece in [
            *cut(stream, chance.getrandbits(32), chance.choice([0, 0, 0, 0, -1, -1, -1, 7, 100, 5000])),
            None,
        ]:
            for each in (skimming, parsing):
                if piece is None:
                    end_through(each)
                else:
                    feed_through(each, piece)
            assert replace(skimming.state, output_chars=0) == replace(parsing.state, output_chars=0)


def usual(name: str, words: list[str]) -> bytes:
    """A stream as the provider's own server writes it."""
    made: list[str] = []
    for number, word in enumerate(words):
        text = json.dumps(word, ensure_ascii=False)
        padding = "x" * (number * 7 % 13)
        if name == "anthropic":
            delta = f'"delta":{{"type":"text_delta","text":{text}}}'
            made.append(f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":0,{delta}}}\n\n')
        elif name == "chat":
            choice = f'{{"index":0,"delta":{{"content":{text}}},"logprobs":null,"finish_reason":null}}'
            made.append(
                f'data: {{"id":"c","model":"m","choices":[{choice}],"usage":null,"obfuscation":"{padding}"}}\n\n'
            )
        elif name == "responses":
            kind = "response.output_text.delta"
            fields = f'"sequence_number":{number},"delta":{text},"logprobs":[],"obfuscation":"{padding}"'
            made.append(f'event: {kind}\ndata: {{"type":"{kind}",{fields}}}\n\n')
        else:
            message = f'"message":{{"role":"assistant","content":{text}}}'
            made.append(f'{{"model":"m","created_at":"2026-11-22T10:00:00Z",{message},"done":false}}\n')
    return "".join(made).encode()


@pytest.mark.parametrize("name", ["anthropic", "chat", "responses", "ollama"])
@given(
    words=st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=300), longest=st.sampled_from([0, 60, 999])
)
def test_estimates(name: str, words: list[str], longest: int) -> None:
    """Of events that differ only in their content, their number and their padding, the estimate is exact but for the
    digits of the number."""
    pieces = cut(usual(name, words), 1, longest)
    skimming, parsing = tap(name, skims=True), tap(name, skims=False)
    for piece in pieces:
        feed_through(skimming, piece)
        feed_through(parsing, piece)
    assert abs(skimming.state.output_chars - parsing.state.output_chars) <= (
        2 * len(words) if name == "responses" else 0
    )


@pytest.mark.parametrize("name", ["anthropic", "chat", "responses", "ollama"])
def test_few_are_parsed(name: str) -> None:
    """Of a thousand events in pieces of their own, about one in thirty is parsed."""
    make, splitter = MAKE[name]
    parsed = 0

    class Counting(make):  # type: ignore[misc, valid-type]
        """Counts what it parses."""

        def record(self, record: bytes) -> None:
            nonlocal parsed
            parsed += 1
            super().record(record)

    counting = StreamTap(Counting(), splitter(), None)
    for piece in cut(usual(name, ["word"] * 1000), 1, 0):
        feed_through(counting, piece)
    assert 20 <= parsed <= 50


HEAD = 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'
DELTA = 'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":3,"delta":"a"}'
CHUNK = 'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]'


@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("anthropic", HEAD + 'a"}}\r\revent: message_stop\rdata: {"type":"message_stop"}\n\n'),
        ("anthropic", HEAD + 'a"}}\nevent: message_stop\n\n'),
        ("anthropic", HEAD + 'a"}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'),
        ("responses", DELTA + '\r\revent: response.completed\rdata: {"type":"x","response":{}}\n\n'),
        ("responses", DELTA + "\nevent: response.completed\n\n"),
        ("chat", CHUNK + "}\r\rdata: [DONE]\n\n"),
        ("chat", CHUNK + "}\nevent: error\n\n"),
        ("chat", CHUNK + "}\n\ndata: [DONE]\n\n"),
        ("chat", CHUNK + ',"\\u0075sage":{"prompt_tokens":1}}\n\n'),
        ("chat", CHUNK + ',"\\u0065rror":{"code":429}}\n\n'),
        ("ollama", '{"message":{"content":"a"},"done":false}\n{"\\u0064one":true}\n'),
        ("ollama", '{"message":{"content":"a"},"done":false}\n{"message":{},"done":true}\n'),
        ("ollama", '{"message":{"content":"a"},"d\\u006fne":true}\n'),
    ],
)
def test_content_with_more_in_the_same_piece(name: str, piece: str) -> None:
    """What only begins as the events before it did is parsed."""
    skimming, parsing = tap(name, skims=True), tap(name, skims=False)
    like = {"anthropic": HEAD + 'a"}}\n\n', "responses": DELTA + "\n\n", "chat": CHUNK + "}\n\n"}
    usual_piece = like.get(name, '{"message":{"content":"a"},"done":false}\n')
    for each in (skimming, parsing):
        for part in (usual_piece, usual_piece, piece):
            feed_through(each, part.encode())
    assert skimming.state == parsing.state
    assert skimming.state != tap_after(name, usual_piece * 3)


def tap_after(name: str, text: str) -> TapState:
    """What a tap says that parsed all of a text."""
    parsing = tap(name, skims=False)
    feed_through(parsing, text.encode())
    return parsing.state
