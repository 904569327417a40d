"""What goes over the wire: requests in every format, each with a number of its own, and what came of one."""

from __future__ import annotations

import random
import re
import zlib
from dataclasses import dataclass
from enum import IntEnum

import msgspec

from hivemind_mock.provider.formats import FORMATS

_MARK = "soak"
_SEEN = re.compile(rb"\bsoak(\d+)\.(\d+) ")
_PADDING = "say it in other words and leave nothing out " * 40
_ERROR = re.compile(rb'event: error|"type": ?"(?:error|response\.failed)"|"error": ?[{"]')
_ENDS = {
    "anthropic": b'"message_stop"',
    "openai_chat": b"[DONE]",
    "openai_responses": b'"response.completed"',
    "google": b'"finishReason"',
    "ollama": b'"done":true',
}
FORMS = tuple(FORMATS)
KEYS = ("sk-soak-1", "sk-soak-2")
UPSTREAMS = ("a", "b")


class Outcome(IntEnum):
    """How a request ended, for its client."""

    NONE = 0
    ANSWERED = 1
    LEFT = 2
    """Its own client went away."""
    REFUSED = 3
    """One well-formed error, before any of an answer."""
    ERROR_EVENT = 4
    """One well-formed error as the last event of a stream."""
    CUT = 5
    """The connection ended in the middle of its own answer, as the upstream's did."""
    BROKEN = 6
    """A promise is broken."""


@dataclass(frozen=True, slots=True)
class Message:
    """A request, ready to be sent."""

    number: int
    form: str
    """One of :data:`FORMS`."""
    stream: bool
    data: bytes


@dataclass(slots=True)
class Reply:
    """What a client got, until the reply or its connection ended."""

    status: int = 0
    """0: there was no head."""
    headers: bytes = b""
    """Names and values that matter, in lower case."""
    body: bytes = b""
    complete: bool = False
    """It came to its end by HTTP's rules."""


def number_of(echo: str) -> int:
    """Return the number of a request by the word that it wants echoed."""
    return int(echo.removeprefix(_MARK))


def message(number: int, agent: str, rng: random.Random, authority: str) -> Message:
    """Return the request of that number, of an agent; chance decides its format."""
    form, stream = rng.choice(FORMS), rng.random() < 0.5
    prompt = f"[echo {_MARK}{number}] {_PADDING[: rng.randrange(40, 1600)]}"
    path, fields = _asked(form, prompt, stream=stream)
    body = msgspec.json.encode(fields)
    head = [
        f"POST /agent/{agent}/to/{rng.choice(UPSTREAMS)}{path} HTTP/1.1",
        f"host: {authority}",
        f"authorization: Bearer {rng.choice(KEYS)}",
        "content-type: application/json",
        f"content-length: {len(body)}",
    ]
    chance = rng.random()
    if chance < 0.3:  # a head of its own, so that no cache of heads knows it
        head.append(f"x-request-id: {number}")
    elif chance < 0.4:
        head.append("accept-encoding: gzip")
    elif chance < 0.45:
        head.append("connection: close")
    elif chance < 0.5:
        head.append(f"x-hivemind-priority: {rng.choice(('high', 'normal', 'low'))}")
    return Message(number, form, stream, "\r\n".join([*head, "", ""]).encode() + body)


def _asked(form: str, prompt: str, *, stream: bool) -> tuple[str, dict[str, object]]:
    turns = [{"role": "user", "content": prompt}]
    if form == "anthropic":
        return "/v1/messages", {"model": "mock-1", "max_tokens": 64, "stream": stream, "messages": turns}
    if form == "openai_chat":
        return "/v1/chat/completions", {"model": "mock-2", "stream": stream, "messages": turns}
    if form == "openai_responses":
        return "/v1/responses", {"model": "mock-2", "stream": stream, "store": False, "input": prompt}
    if form == "ollama":
        return "/api/chat", {"model": "mock-3", "stream": stream, "messages": turns}
    operation = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/mock-4:{operation}", {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}


def judged(sent: Message, reply: Reply) -> tuple[Outcome, str]:
    """Return what became of a request whose client stayed, and what is wrong with that; empty: nothing is."""
    body = reply.body
    if b"gzip" in reply.headers:
        try:
            body = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(body)
        except zlib.error as error:
            return Outcome.BROKEN, f"a body that isn't gzip: {error}"
    if reply.status == 0:
        return Outcome.BROKEN, "the connection ended without an answer"
    wrong = _not_its_own(sent, body, complete=reply.complete)
    if wrong:
        return Outcome.BROKEN, wrong
    if not reply.complete:
        if reply.status != 200:
            return Outcome.BROKEN, f"an answer {reply.status} that is cut"
        return Outcome.CUT, ""
    if reply.status != 200:
        wrong = _not_one_error(sent.form, reply)
        return (Outcome.BROKEN, wrong) if wrong else (Outcome.REFUSED, "")
    return _judged_success(sent, body)


def _judged_success(sent: Message, body: bytes) -> tuple[Outcome, str]:
    if not sent.stream:
        try:
            msgspec.json.decode(body, type=dict)
        except msgspec.DecodeError as error:
            return Outcome.BROKEN, f"a 200 that isn't JSON: {error}"
        return (Outcome.ANSWERED, "") if _SEEN.search(body) else (Outcome.BROKEN, f"a 200 without text: {body[:200]!r}")
    errors, ended = len(_ERROR.findall(body)), _ENDS[sent.form] in body
    if errors:
        return (Outcome.BROKEN, "a stream with an error and its end") if ended else (Outcome.ERROR_EVENT, "")
    if not ended:
        return Outcome.BROKEN, f"a stream without its end that looks complete: {body[-200:]!r}"
    return (Outcome.ANSWERED, "") if _SEEN.search(body) else (Outcome.BROKEN, "a stream without text")


def _not_its_own(sent: Message, body: bytes, *, complete: bool) -> str:
    """Return what of a body isn't the request's own, or isn't there once and in order; empty: all is."""
    expected = 0
    for number, piece in _SEEN.findall(body):
        if int(number) != sent.number:
            return f"a part of the answer to number {number.decode()}"
        if int(piece) != expected and int(piece) != 0:
            return f"piece {piece.decode()} in place of {expected}"
        expected = int(piece) + 1
    if complete and sent.form == "openai_responses" and sent.stream:
        return ""
    repeated = len([piece for _, piece in _SEEN.findall(body) if piece == b"0"]) > 1
    return "its answer twice" if repeated and sent.form != "openai_responses" else ""


def _not_one_error(form: str, reply: Reply) -> str:
    """Return why a body isn't one error in the format's shape; empty: it is."""
    if reply.status == 502 and b"text/html" in reply.headers:
        return ""  # the page of the edge in front of the provider, as it came
    try:
        error = msgspec.json.decode(reply.body, type=dict).get("error")
    except msgspec.DecodeError:
        return f"a {reply.status} that isn't JSON: {reply.body[:200]!r}"
    shaped = isinstance(error, str) if form == "ollama" else isinstance(error, dict) and "message" in error
    return "" if shaped else f"a {reply.status} that isn't an error of {form}: {reply.body[:200]!r}"
