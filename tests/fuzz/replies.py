"""Readers of every dialect's replies and requests: whatever the bytes, they say the same however these are cut."""

from __future__ import annotations

import math

from fuzz.kit import choices, pieces, require, require_linear, target

from hivemind.providers.anthropic import AnthropicReader
from hivemind.providers.base import Facts, Headers, StreamForm, TapState
from hivemind.providers.bedrock import BedrockReader
from hivemind.providers.dialect import Dialect
from hivemind.providers.errors import classify
from hivemind.providers.google import GoogleReader
from hivemind.providers.json_fields import MOST, MOST_ITEMS
from hivemind.providers.ollama import OllamaReader
from hivemind.providers.openai import ChatReader, ResponsesReader
from hivemind.providers.paths import DIALECTS
from hivemind.providers.plain import PlainReader
from hivemind.providers.sse import LineSplitter, SseSplitter
from hivemind.providers.taps import Reader, StreamTap, end_through, feed_through
from hivemind.providers.times import LONGEST_S
from hivemind.records import replace
from hivemind.scheduler.types import Failure, Usage

_NAMES = ("anthropic", "openai_chat", "openai_responses", "google", "ollama", "bedrock", "plain")
_PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "google": "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
    "ollama": "/api/chat",
    "bedrock": "/model/m/converse-stream",
    "plain": "/v1/images/generations",
}
_READERS: tuple[type[Reader], ...] = (
    *(AnthropicReader, ChatReader, ResponsesReader, GoogleReader, OllamaReader, BedrockReader, PlainReader),
)


def _parser(make: type[Reader]) -> type[Reader]:
    class Parser(make):  # type: ignore[misc, valid-type]
        """Parses every event."""

        def read(self, record: bytes) -> None:
            self.record(record)

    return Parser


_PARSERS = {make: _parser(make) for make in _READERS}
_FORMS = (
    (StreamForm.SSE, b"text/event-stream"),
    (StreamForm.NDJSON, b"application/x-ndjson"),
    (StreamForm.JSON_ARRAY, b"application/json; charset=utf-8"),
    (StreamForm.WHOLE, b"application/json"),
    (StreamForm.ANY, b"text/event-stream"),
)
_TOKENS = (
    *(b"event: content_block_delta\ndata: {", b"event: message_stop\n", b"event: error\n", b"data: [DONE]\n\n"),
    *(b'"usage":{', b'"input_tokens":', b'"output_tokens":', b'"prompt_tokens":', b'"completion_tokens":'),
    *(b'"error":{', b'"usageMetadata":{"promptTokenCount":', b'"candidatesTokenCount":', b'"finishReason":"STOP"'),
    *(b'"done":true', b'"prompt_eval_count":', b'"eval_count":', b'"choices":[{', b'"delta":{', b'"content":"'),
    *(b'"type":"', b'"text":"', b"response.completed", b"message_start", b"message_delta", b'"finish_reason":"stop"'),
    *(b'"iterations":[', b"null", b"999999999999", b"1e12", b"-5", b"0.5", b'"7"', b"\r\n", b"\n\n", b'"}}'),
    *(b"\\u0075sage", b'"obfuscation":"', b'"cached_tokens":', b'"cache_read_input_tokens":'),
    *(b'"thoughtsTokenCount":', b'"delta":"a"', b"[{", b"},{", b"}]"),
)
_MOST_TOKENS = MOST * MOST_ITEMS * 4
"""Sums of several counts, each of which is below :data:`MOST`."""


def _sound(state: TapState) -> None:
    require(state.output_chars >= 0, "negative length", state)
    if state.usage is not None:
        _counts(state.usage)
    if state.error is not None:
        failure(state.error)


def _counts(usage: Usage) -> None:
    for count in (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens):
        require(type(count) is int and 0 <= count < _MOST_TOKENS, "not a number of tokens", usage)
    require(math.isfinite(usage.weighted), "not a weight", usage)


def failure(found: Failure) -> None:
    """Check what is concluded from an error."""
    require(found.status is None or 100 <= found.status <= 599, "not a status", found)
    require(found.delay_s is None or 0 <= found.delay_s <= LONGEST_S, "not a delay", found)
    require(len(found.message) < 200 and found.message.isprintable(), "not a short line", found)
    for reading in found.readings:
        require(reading.limit is None or reading.limit > 0, "not a limit", found)


def _tapped(dialect: Dialect, headers: Headers, facts: Facts, parts: list[bytes]) -> TapState:
    tap = dialect.tap(headers, facts)
    for part in parts:
        feed_through(tap, part)
    end_through(tap)
    _sound(tap.state)
    return tap.state


@target("replies", _TOKENS)
def replies(data: bytes) -> None:
    """Taps of all dialects, in all forms."""
    (which, form, seed), body = choices(data, 3)
    dialect = DIALECTS[_NAMES[which % len(_NAMES)]]
    expected, media = _FORMS[form % len(_FORMS)]
    if dialect is DIALECTS["plain"]:
        expected = StreamForm.ANY  # as the facts of its requests have it
    headers: Headers = [(b"content-type", media)]
    facts = Facts(stream=expected is not StreamForm.WHOLE, form=expected)
    whole = _tapped(dialect, headers, facts, [body] if body else [])
    require(_tapped(dialect, headers, facts, pieces(body, seed or 1)) == whole, "cuts change what a tap says", whole)
    at_once = dialect.read_reply(headers, facts, body)
    require(at_once is None or at_once == whole or not body, "read at once, it says something else", at_once, whole)


@target("skimming", _TOKENS)
def skimming(data: bytes) -> None:
    """What is skimmed says what it says if each event is parsed."""
    (which, seed, repeats), body = choices(data, 3)
    make = _READERS[which % len(_READERS)]
    event, _, rest = body.partition(b"\n\n")
    if repeats > 8:
        body = (event + b"\n\n") * 3 + rest

    splitter = LineSplitter if make is OllamaReader else SseSplitter
    skims, parses = StreamTap(make(), splitter(), None), StreamTap(_PARSERS[make](), splitter(), None)
    for piece in pieces(body, seed):
        feed_through(skims, piece)
        feed_through(parses, piece)
        found, wanted = replace(skims.state, output_chars=0), replace(parses.state, output_chars=0)
        require(found == wanted, "skimmed, it says something else", found, wanted)


@target("reading_time", _TOKENS, longest=200, timed=True)
def takes_linear_time(data: bytes) -> None:
    """Replies are read in linear time, however long a line of them is and however it is cut."""
    (which, form, once, cut), unit = choices(data, 4)
    dialect = DIALECTS[_NAMES[which % len(_NAMES)]]
    expected, media = _FORMS[form % len(_FORMS)]
    facts = Facts(stream=expected is not StreamForm.WHOLE, form=expected)
    first, rest = unit[:once], unit[once:]
    if not rest:
        return
    size = 7 if cut % 2 else 16384
    longest = 1 << 14 if cut % 2 else 5 << 18  # all of it beyond what is parsed as one text

    def read(text: bytes) -> None:
        tap = dialect.tap([(b"content-type", media)], facts)
        for at in range(0, len(text), size):
            feed_through(tap, text[at : at + size])
        end_through(tap)

    four = first + (rest * (longest // len(rest) + 1))[:longest]
    require_linear(read, four[: len(four) // 4], four, unit)


@target("requests", [*_TOKENS, b'"model":"m"', b'"stream":true', b'"max_tokens":', b'"metadata":{"user_id":"', b"{"])
def requests(data: bytes) -> None:
    """What a request's body says is of the right kind, and the same where it is read in steps."""
    (which, form), body = choices(data, 2)
    name = _NAMES[which % len(_NAMES)]
    dialect, path = DIALECTS[name], _PATHS[name]
    headers: Headers = [(b"content-type", _FORMS[form % len(_FORMS)][1])]
    facts = dialect.facts(path, "alt=sse" if form % 2 else "", headers, body)
    require(0 <= facts.size_chars <= max(len(body), 2), "not its length", facts)
    require(facts.max_output_tokens is None or 0 <= facts.max_output_tokens < MOST, "not a count", facts)
    steps = dialect.facts_in_steps(path, "alt=sse" if form % 2 else "", headers, body)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        require(end.value == facts or not body, "read in steps, it says something else", end.value, facts)


@target("errors", [*_TOKENS, b"retry in 3.5s", b"try again in 6m0s", b"retry after 26 seconds", b'"retryDelay":"34s"'])
def errors(data: bytes) -> None:
    """Whatever an error answer holds, what is concluded from it is sound, and can be told to the client."""
    (which, status, hint), body = choices(data, 3)
    code = (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 499, 500, 502, 503, 504, 524, 529)[status % 17]
    head, separator, rest = body.partition(b"\n\n")
    headers = [(b"retry-after", head), (b"x-should-retry", (b"true", b"false", b"x")[hint % 3])] if separator else []
    found = classify(code, headers, rest if separator else body, 1.8e9)
    if found is None:
        raise AssertionError("an error isn't one")
    failure(found)
    dialect = DIALECTS[_NAMES[which % len(_NAMES)]]
    told = dialect.failure_event(found, rest if separator else body)
    require(told, "no event")
    dialect.refusal(code, found.kind.value, found.message, found.delay_s)
