"""Replies about work that goes on after others: a look at it, its stream taken up again, the results of a batch.

They cost nothing, and state what the work used. Results may be long, so they are read in pieces as they pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct, field

from hivemind.providers import json_fields
from hivemind.providers.anthropic import AnthropicReader
from hivemind.providers.base import Facts, Headers, Steps, StreamForm, Tap, TapState, WorkSign
from hivemind.providers.encoding import decoder_for
from hivemind.providers.google import GoogleReader
from hivemind.providers.json_fields import Shape
from hivemind.providers.openai import ResponsesReader
from hivemind.providers.plain import PlainReader
from hivemind.providers.sse import LineSplitter
from hivemind.providers.taps import Reader, StreamTap, read_whole, tap_for
from hivemind.providers.tiers import BATCH
from hivemind.providers.work import BatchReader, JobReader, goes_on
from hivemind.records import replace

_ID = r"/(?P<id>[^/:]+)"
_POLLS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("responses", re.compile(rf"/responses{_ID}(?:/cancel)?$")),
    ("interactions", re.compile(rf"/interactions{_ID}(?:[/:]cancel)?$")),
    ("run", re.compile(rf"/threads/[^/]+/runs(?:{_ID}(?:/cancel)?)?$")),
    ("deferred", re.compile(rf"/chat/deferred-completion{_ID}$")),
    ("lines", re.compile(rf"(?:/messages/batches{_ID}/results)$")),
    ("lines", re.compile(rf"/files{_ID}/content$")),
    ("google", re.compile(rf"/files{_ID}:download$")),
    (
        "video",
        re.compile(
            rf"/(?:videos|video/generations/jobs|operations|async-result|tasks)(?:{_ID})?$"
            r"|:fetchPredictOperation$|/query/video_generation$"
        ),
    ),
    (
        "job",
        re.compile(rf"/(?:fine_tuning/jobs|fine-tunes|evals/[^/]+/runs|dreams|tuningJobs)(?:{_ID}(?:[/:]cancel)?)?$"),
    ),
    ("batch", re.compile(rf"/(?:batches|batch/jobs|batchPredictionJobs)(?:{_ID}(?:[/:]cancel)?)?$")),
)
"""Kinds of replies by their paths; without an id, a list of such work."""
_MOST_MODELS = 64

_LINE = Shape("result response")
_RESULT = Shape("message")
_RESPONSE = Shape("body")
_MODEL = Shape("model:text")
_LIST = Shape("data operations batchPredictionJobs")


def polled(path: str) -> tuple[str, str]:
    """Return the kind of the reply to a request without cost, empty where its path tells none, and the id that it asks
    for."""
    for kind, pattern in _POLLS:
        if found := pattern.search(path):
            return kind, found["id"] or ""
    return "", path.rstrip("/").rpartition("/")[2]


def tap_of_poll(kind: str, name: str, headers: Headers) -> Tap:
    """Return a tap for the reply to a request without cost, as :func:`polled` tells it; `headers` are the reply's."""
    if kind == "lines":
        return StreamTap(ResultLines(name), LineSplitter(), decoder_for(headers))
    google = StreamTap(GoogleResults(name), GoogleScanner(), decoder_for(headers))
    if kind == "google":
        return google
    readers: dict[str, Callable[[], Reader]] = {
        "responses": ResponsesReader,
        "interactions": GoogleReader,
        "batch": BatchReader,
        "deferred": partial(DeferredReader, name),
        "video": partial(JobReader, "video", name),
        "job": partial(JobReader, "job", name),
    }
    made = readers.get(kind, PlainReader)
    reader = made() if name else ListReader(made)
    reader.state.watches = True
    tap = tap_for(reader, headers, Facts(form=StreamForm.WHOLE))
    return EitherTap(google, tap) if kind == "batch" and name else tap


class ListReader(Reader):
    """Reader of a list of work, each item read by a reader of its own; a reply without a list is one item."""

    __slots__ = ("_made",)

    def __init__(self, made: Callable[[], Reader]) -> None:
        super().__init__()
        self._made = made

    def record(self, record: bytes) -> None:
        """Nothing comes in pieces."""

    def whole(self, body: bytes) -> None:
        """What each used counts apart."""

    def watch(self, body: bytes) -> None:
        reply, self.state.listed = _LIST.read(body), []
        for item in next((found for name in reply if (found := json_fields.items(reply, name))), [body]):
            reader = self._made()
            reader.state.watches = True
            read_whole(reader, item)
            self.state.listed.append(reader.state)


class DeferredReader(PlainReader):
    """Reader of a deferred chat completion, which says nothing of the id that it was asked for by."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def watch(self, body: bytes) -> None:
        self.state.work = WorkSign(self._name, "background", goes_on=False)


class EitherTap(Struct):
    """Two taps of a reply that has one of two forms under the same path: Gemini's batches are at OpenAI's path too."""

    first: Tap
    other: Tap

    ends: tuple[bytes, ...] = ()
    is_between: bool = False

    @property
    def state(self) -> TapState:
        """That of the first, if it found anything."""
        return self.other.state if self.first.state.work is None else self.first.state

    def feed(self, data: bytes) -> Steps | None:
        return _both(self.first.feed(data), self.other.feed(data))

    def end(self) -> Steps | None:
        return _both(self.first.end(), self.other.end())


def _both(one: Steps | None, other: Steps | None) -> Steps | None:
    return None if one is None and other is None else _in_turn(one or (), other or ())


def _in_turn(one: Iterable[None], other: Iterable[None]) -> Steps:
    yield from one
    yield from other


class _Results(Reader):
    """Adds up what the results of a batch used, by model."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.state.used = {}
        self.state.content_started = True

    def add(self, reader: Reader, reply: bytes, model: str) -> None:
        reader.state.model = model
        reader.whole(reply)
        used = self.state.used
        assert used is not None, "from the beginning"
        parts = [*(reader.state.used or {}).items()]
        parts += [] if reader.state.usage is None else [(model, reader.state.usage)]
        for name, usage in parts:
            name = name if name in used or len(used) < _MOST_MODELS else ""
            usage = replace(usage, tier=BATCH, requests=1)
            if (before := used.get(name)) is not None:
                usage = replace(before + usage, requests=before.requests + usage.requests)
            used[name] = usage

    def whole(self, body: bytes) -> None:
        """Nothing comes whole."""

    def closed(self) -> None:
        self.state.complete = True


class ResultLines(_Results):
    """Reader of results of which each is a line: Anthropic's, OpenAI's, and in their form."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__()
        self.state.work = WorkSign(name, "batch", goes_on=False, sure=True)

    def record(self, record: bytes) -> None:
        line = _LINE.read(record)
        message = bytes(json_fields.raw(_RESULT.within(line, "result"), "message"))
        reply = message or bytes(json_fields.raw(_RESPONSE.within(line, "response"), "body"))
        if reply:
            model = json_fields.text(_MODEL.read(reply), "model")
            self.add(AnthropicReader() if message else ResponsesReader(), reply, model)


class GoogleResults(_Results):
    """Reader of what :class:`GoogleScanner` finds."""

    __slots__ = ("_found", "_lists")

    def __init__(self, name: str) -> None:
        super().__init__()
        self._found = WorkSign(name, "batch", goes_on=False, sure=True)
        self._lists = 0

    def record(self, record: bytes) -> None:
        found = _FOUND.fullmatch(record)
        assert found is not None, "as it was found"
        work = self.state.work = self.state.work or self._found
        if found["list"]:
            self._lists += 1
        elif found["state"]:
            self.state.work = replace(work, goes_on=goes_on(found["state"].decode()))
        elif found["file"]:
            self.state.work = replace(work, names=(found["file"].decode(),))
        elif self._lists < 2:  # an operation has the same results in its metadata and in its response
            self.add(GoogleReader(), b'{"usageMetadata":%b}' % found["usage"], (found["model"] or b"").decode())


_FOUND = re.compile(
    rb'(?<!\\)"(?:usageMetadata"\s*+:\s*+(?P<usage>\{(?:[^{}]++|\{[^{}]*+\})*+\})'
    rb'(?:\s*+,\s*+"modelVersion"\s*+:\s*+"(?P<model>[\w.:@/-]{1,200})")?'
    rb'|state"\s*+:\s*+"(?P<state>(?:BATCH|JOB)_STATE_\w{1,40})"'
    rb'|responsesFile"\s*+:\s*+"(?:files/)?(?P<file>[\w.-]{1,200})"'
    rb'|(?P<list>inlinedResponses)"\s*+:\s*+\[)'
)
_LONGEST = 8192
"""Bytes of the longest that is searched for."""


class GoogleScanner(Struct):
    """Finds what a batch of Gemini's states, wherever that stands: one JSON document, or one a line, of any length."""

    slice_bytes: int = 16 * 1024
    separator: bytes = b"}"
    ends: tuple[bytes, ...] = ()
    is_between: bool = False
    _rest: bytes = field(default=b"")

    def feed(self, data: bytes) -> list[bytes]:
        data = self._rest + data
        sure = len(data) - _LONGEST  # what begins after this may go on in the next piece
        records, at = [], max(0, sure)
        for found in _FOUND.finditer(data):
            if found.start() >= sure:
                at = found.start()
                break
            records.append(found[0])
            at = max(at, found.end())
        self._rest = data[at:]
        return records

    def end(self) -> list[bytes]:
        return [found[0] for found in _FOUND.finditer(self._rest)]
