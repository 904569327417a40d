"""Paths without a dialect: other servers' APIs, and those of known providers with other formats (images, sound,
assistants). Their content is unknown, so it is forwarded unchanged and at once, the cost is estimated from the size,
and an attempt that reached the upstream isn't retried.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hivemind.providers import json_fields
from hivemind.providers.anthropic import AnthropicReader
from hivemind.providers.base import Facts, Headers, Steps, StreamForm, Tap, TapState
from hivemind.providers.counts import usage_in
from hivemind.providers.encoding import header
from hivemind.providers.json_fields import Members, Shape
from hivemind.providers.openai import ChatReader, OpenAI, ResponsesReader, openai_usage
from hivemind.providers.outline import BYTES_PER_CHAR, size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import Reader
from hivemind.providers.tiers import tier_of
from hivemind.providers.work import RESPONSE, background_work, batch_facts, job_facts
from hivemind.records import replace
from hivemind.scheduler.types import Usage

_TEXT = ("application/json", "text/", "application/x-www-form-urlencoded")
_TAPPED = ("application/json", "text/event-stream", "application/x-ndjson", "application/jsonl")
"""Media types of replies that may contain usage."""


_REQUEST = Shape(
    "background:flag stream:flag model max_tokens max_tokens_to_sample max_output_tokens service_tier:text"
)
_REPLY = Shape("usage response message service_tier:text")
_BATCH = re.compile(r"/(?:batch(?:es|/jobs)|batchPredictionJobs)/?$")
"""Paths of OpenAI's, Mistral's and Vertex's batches."""
_VIDEO = re.compile(
    r"/(?:videos(?:/(?:generations|edits|extensions)|/[^/]+/remix)?|video/generations/jobs|video_generation|video-synthesis"
    r"|contents/generations/tasks|models/(?P<model>[^/:]+):predictLongRunning)/?$"
)
"""Paths of videos: OpenAI's, xAI's and Zhipu's, Azure's, MiniMax's, Alibaba's, Volcengine's, Google's."""
_JOB = re.compile(r"/(?:fine_tuning/jobs|fine-tunes|evals/[^/]+/runs|dreams|tunedModels|tuningJobs)/?$")
"""Paths of trainings (OpenAI, Mistral, Together, Google), of runs of evals, and of Anthropic's dreams."""
_FORM_MODEL = re.compile(rb'name="model"\r?\n(?:[^\r\n]+\r?\n)*\r?\n([\w.:/@-]{1,100})\r?\n')
_FORM_ENDS = 64 * 1024
"""Bytes at either end of a form that are searched for it."""
_RUN = re.compile(r"/threads/(?:[^/]+/)?runs(?:/[^/]+/submit_tool_outputs)?/?$")
"""Paths of OpenAI's Assistants: what runs a thread always goes on in the background, also beside its stream."""
_RUN_EVENT = re.compile(rb"event: ?thread\.run\.[a-z_]+\r?\n")
_THREAD_EVENT = re.compile(rb"event: ?thread\.created\r?\n")
"""Of the thread that is created for a run, whose id comes next."""
_HOUR = "ephemeral_1h_input_tokens"
_CREATION = Shape(f"{_HOUR}:count")
_CACHE_COUNTS = Shape("", cache_creation=_CREATION)


class PlainReader(Reader):
    """Reader of a `usage` object as in OpenAI's and Anthropic's APIs, at the top level of a reply or event, or in
    its `response` or `message`. The last one counts. A stream whose events are those of a known dialect is read as
    one of its own."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        super().__init__()
        self._known: Reader | None = None

    def record(self, record: bytes) -> None:
        if self._known is None and (reader := next((r for sign, r in _SIGNS if sign.search(record)), None)):
            self._known = reader()
            self._known.state = self.state
            self.state.recognised = True
        if self._known is not None:
            self._known.record(record)
            return
        if self.state.watches:
            if _RUN_EVENT.match(record):
                self.watch(fields(record)[1])
            self.state.content_started |= not _THREAD_EVENT.match(record)
        if b'sage"' in record or b"oken" in record:
            self.whole(fields(record)[1] or record)

    def content_size(self, record: bytes) -> int:
        return 0 if self._known is None else self._known.content_size(record)

    def watch(self, body: bytes) -> None:
        self.state.work = background_work(RESPONSE.read(body), stated=True)

    def whole(self, body: bytes) -> None:
        reply = _REPLY.read(body)
        inner = _REPLY.within(reply, "response") or _REPLY.within(reply, "message")
        state = self.state
        tier = json_fields.text(reply, "service_tier") or json_fields.text(inner, "service_tier")
        state.tier = tier_of(tier, state.tier)
        usage = _usage(reply, state.tier) or _usage(inner, state.tier) or usage_in(body, state.tier)
        if usage is not None:
            state.usage, state.usage_final = usage, True

    def closed(self) -> None:
        """Complete, unless the end marker is known."""
        if self._known is None:
            self.state.complete = True
        else:
            self._known.closed()


_SIGNS: tuple[tuple[re.Pattern[bytes], type[Reader]], ...] = (
    (re.compile(rb'"type"\s{0,4}:\s{0,4}"message_start"'), AnthropicReader),
    (re.compile(rb'"type"\s{0,4}:\s{0,4}"response\.created"'), ResponsesReader),
    (re.compile(rb'"choices"\s{0,4}:\s{0,4}\[\s{0,4}\{[^{]{0,60}"delta"'), ChatReader),
)
"""By what an event shows: the reader of its stream."""


class PlainTap(Struct):
    """A tap whose reply begins with its first byte, or with the id of the work that it begins. Unless it is a stream of
    a known dialect, it is complete at any end, and its errors aren't classified."""

    _inner: Tap | None
    """Reads the usage of a reply that may contain it."""
    state: TapState

    ends: tuple[bytes, ...] = ()
    """The form of its events is unknown."""
    is_between: bool = False

    def feed(self, data: bytes) -> Steps | None:
        self.state.content_started |= self._inner is None or not self.state.watches
        return self._inner.feed(data) if self._inner else None

    def end(self) -> Steps | None:
        rest = self._inner.end() if self._inner else None
        if rest is not None:
            return self._ended(rest)
        self._judge()
        return None

    def _ended(self, rest: Steps) -> Steps:
        yield from rest
        self._judge()

    def _judge(self) -> None:
        if not self.state.recognised:
            self.state.error, self.state.complete = None, True


class Plain(OpenAI):
    """Dialect of unknown paths, with errors in OpenAI's format, which most servers share.

    An attempt that reached the upstream isn't repeated, since its effect is unknown.
    """

    name = "plain"
    reader = PlainReader

    def is_opaque(self, headers: Headers) -> bool:
        media = header(headers, b"content-type").lower()
        return bool(media) and not media.startswith(_TEXT)

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        if not self.is_opaque(headers):
            return super().facts(path, query, headers, body)
        if _VIDEO.search(path):
            model = _FORM_MODEL.search(body[:_FORM_ENDS] + body[-_FORM_ENDS:])
            return job_facts("video", "" if model is None else model[1].decode("latin-1"))
        return Facts(size_chars=len(body) // BYTES_PER_CHAR, continues_state=True, unmetered=True, form=StreamForm.ANY)

    def request_facts(self, path: str, query: str, body: bytes) -> Facts:
        request = _REQUEST.read(body)
        if _BATCH.search(path):
            return batch_facts(json_fields.text(request, "model"), StreamForm.ANY)
        if (video := _VIDEO.search(path)) is not None:
            return job_facts("video", video["model"] or json_fields.text(request, "model"))
        if _JOB.search(path) is not None:
            return job_facts("job", json_fields.text(request, "model"))
        background = json_fields.flag(request, "background") is True
        background |= _RUN.search(path) is not None
        return Facts(
            model=json_fields.text(request, "model"),
            size_chars=size_chars(body),
            max_output_tokens=json_fields.count(request, "max_tokens", "max_tokens_to_sample", "max_output_tokens"),
            continues_state=True,
            unmetered=True,
            tier=tier_of(json_fields.text(request, "service_tier")),
            begins="background" if background else None,
            form=StreamForm.ANY,
        )

    def tap(self, headers: Headers, facts: Facts) -> Tap:
        media = header(headers, b"content-type").lower()
        inner = super().tap(headers, facts) if media.startswith(_TAPPED) else None
        return PlainTap(inner, inner.state if inner else TapState(tier=facts.tier))


class Stateless(Plain):
    """Dialect of known paths whose formats aren't, of which is known that nothing goes on after the answer: an attempt
    is repeated as long as nothing of its answer was forwarded."""

    name = "stateless"

    def request_facts(self, path: str, query: str, body: bytes) -> Facts:
        return replace(super().request_facts(path, query, body), continues_state=False)


def _usage(reply: Members, tier: str) -> Usage | None:
    found = openai_usage(reply, tier)
    for_an_hour = json_fields.total(_CREATION.within(_CACHE_COUNTS.within(reply, "usage"), "cache_creation"), _HOUR)
    return found and replace(found, cache_write_1h_tokens=min(found.cache_write_tokens, for_an_hour))
