"""Recordings with a row a request: spend logs of gateways, exports of tracing services, public traces, OpenTelemetry's
GenAI spans, and any CSV, JSON or JSON lines whose columns are named.

A layout is data: by which columns it is recognised, and which of them hold what. A column is named by its path in the
row (`metadata.status`); of several the first one that a row has counts.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from hivemind.errors import UsageError
from hivemind.journal.codec import BOM
from hivemind.journal.importers.lines import decoded, lines, unpacked
from hivemind.journal.importers.parsed import LARGEST, UnreadableEntry
from hivemind.journal.importers.told import Tale, Told, count, moment, number, stated_limits
from hivemind.records import replace
from hivemind.scheduler.types import Usage

Row = Mapping[str, Any]
_anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

MEANINGS = (
    *("start", "end", "first", "duration", "duration_ms", "ttft", "ttft_ms", "model", "input", "output"),
    *("cache_read", "cache_write", "agent", "parent", "status", "error", "message", "id", "origin"),
)
"""What a column may hold: moments, seconds or milliseconds, tokens (`input` with what was cached), names."""
_FAILED = frozenset({"failure", "failed", "error", "2", "status_code_error"})
_CACHED = frozenset({"true", "1", "yes"})
_WIDEST = 10 << 20
_INSIDE = ("data", "rows", "results", "requests", "observations", "logs")
"""Where an answer of an API has its rows."""


class Layout(Struct, frozen=True):
    """How one kind of such files is laid out."""

    name: str
    has: frozenset[str]
    """Columns that together only it has."""
    columns: Mapping[str, tuple[str, ...]]
    """By what they hold, as of :data:`MEANINGS`."""
    unit_s: float = 1.0
    """Of moments that are plain numbers and no dates."""
    apart: bool = False
    """Its count of input tokens is without what was cached."""
    empty_fails: bool = False
    """A request without output tokens failed."""
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Columns, of which the first that a row has says by one of these values that it is a request of a model."""
    from_cache: tuple[str, ...] = ()
    """Columns that say that no provider was asked."""
    around: str = ""
    """The column with the id of the row that this one is a part of."""


def _columns(**names: str) -> dict[str, tuple[str, ...]]:
    return {meaning: tuple(paths.split()) for meaning, paths in names.items()}


_snake = partial(re.sub, "[A-Z]", lambda found: f"_{found[0].lower()}")
_LANGFUSE = Layout(
    "langfuse",
    frozenset({"startTime", "completionStartTime", "traceId"}),
    _columns(
        start="startTime",
        end="endTime",
        first="completionStartTime",
        model="providedModelName model",
        input="usageDetails.input usage.input promptTokens",
        output="usageDetails.output usage.output completionTokens",
        cache_read="usageDetails.input_cached_tokens usageDetails.cache_read_input_tokens"
        " usageDetails.input_cache_read",
        cache_write="usageDetails.cache_creation_input_tokens usageDetails.input_cache_creation",
        agent="sessionId traceName traceId",
        status="level",
        message="statusMessage",
        id="id",
    ),
    apart=True,
    only={"type": frozenset({"GENERATION", "EMBEDDING"})},
    around="parentObservationId",
)
LAYOUTS = (
    Layout(  # github.com/HPMLL/BurstGPT: a request that failed has no response tokens
        "burstgpt",
        frozenset({"Timestamp", "Request tokens", "Response tokens"}),
        {
            "start": ("Timestamp",),
            "model": ("Model",),
            "input": ("Request tokens",),
            "output": ("Response tokens",),
            "agent": ("Session ID",),
            "duration": ("Elapsed time",),
        },
        empty_fails=True,
    ),
    Layout(  # github.com/Azure/AzurePublicDataset
        "azure-trace",
        frozenset({"TIMESTAMP", "ContextTokens", "GeneratedTokens"}),
        _columns(start="TIMESTAMP", input="ContextTokens", output="GeneratedTokens"),
    ),
    Layout(  # github.com/kvcache-ai/Mooncake: milliseconds since the trace began
        "mooncake",
        frozenset({"timestamp", "input_length", "output_length"}),
        _columns(start="timestamp", input="input_length", output="output_length"),
        unit_s=0.001,
    ),
    Layout(
        "litellm",
        frozenset({"startTime", "prompt_tokens", "completion_tokens"}),
        _columns(
            start="startTime",
            end="endTime",
            first="completionStartTime",
            model="model",
            input="prompt_tokens",
            output="completion_tokens",
            cache_read="metadata.usage_object.cache_read_input_tokens"
            " metadata.usage_object.prompt_tokens_details.cached_tokens"
            " metadata.additional_usage_values.cache_read_input_tokens cache_read_input_tokens",
            cache_write="metadata.usage_object.cache_creation_input_tokens"
            " metadata.additional_usage_values.cache_creation_input_tokens cache_creation_input_tokens",
            agent="end_user session_id user team_id",
            status="status metadata.status",
            error="metadata.error_information.error_code error_information.error_code",
            message="metadata.error_information.error_message error_str",
            id="request_id",
            origin="api_base",
        ),
        from_cache=("cache_hit",),
    ),
    Layout(
        "helicone",
        frozenset({"request_created_at", "prompt_tokens", "completion_tokens"}),
        _columns(
            start="request_created_at",
            end="response_created_at",
            duration_ms="delay_ms latency",
            ttft_ms="time_to_first_token",
            model="request_model response_model model model_override",
            input="prompt_tokens",
            output="completion_tokens",
            cache_read="prompt_cache_read_tokens",
            cache_write="prompt_cache_write_tokens",
            agent="request_properties.Helicone-Session-Id properties.Helicone-Session-Id request_user_id user_id",
            status="response_status status",
            id="request_id response_id",
            origin="target_url",
        ),
        apart=True,
        from_cache=("cache_enabled_hit", "cache_reference_hit"),
    ),
    _LANGFUSE,
    replace(
        _LANGFUSE,
        has=frozenset(map(_snake, _LANGFUSE.has)),
        columns={meaning: tuple(map(_snake, names)) for meaning, names in _LANGFUSE.columns.items()},
        around=_snake(_LANGFUSE.around),
    ),
    *(
        Layout(  # Arize Phoenix: its API's answers, and its data frames as CSV
            "phoenix",
            frozenset({"span_kind", "start_time", ident}),
            _columns(
                start="start_time",
                end="end_time",
                ttft="attributes.gen_ai.response.time_to_first_chunk",
                model="attributes.llm.model_name",
                input="attributes.llm.token_count.prompt",
                output="attributes.llm.token_count.completion",
                cache_read="attributes.llm.token_count.prompt_details.cache_read",
                cache_write="attributes.llm.token_count.prompt_details.cache_write",
                agent="attributes.session.id attributes.gen_ai.agent.name context.trace_id",
                status="status_code",
                error="attributes.http.response.status_code attributes.error.type",
                message="status_message",
                id="context.span_id",
            ),
            only={"span_kind": frozenset({"LLM", "EMBEDDING"})},
            around="parent_id",
        )
        for ident in ("context", "context.span_id")
    ),
)
SPANS = Layout(  # opentelemetry.io, "Semantic conventions for generative AI"; input tokens include what was cached
    "opentelemetry",
    frozenset({"resourceSpans"}),
    _columns(
        start="startTimeUnixNano",
        end="endTimeUnixNano",
        ttft="gen_ai.response.time_to_first_chunk",
        ttft_ms="ai.response.msToFirstChunk",
        model="gen_ai.response.model gen_ai.request.model llm.model_name embedding.model_name ai.model.id"
        " llm.response.model llm.request.model",
        input="gen_ai.usage.input_tokens gen_ai.usage.prompt_tokens llm.token_count.prompt ai.usage.promptTokens"
        " ai.usage.inputTokens ai.usage.tokens llm.usage.prompt_tokens",
        output="gen_ai.usage.output_tokens gen_ai.usage.completion_tokens llm.token_count.completion"
        " ai.usage.completionTokens ai.usage.outputTokens llm.usage.completion_tokens",
        cache_read="gen_ai.usage.cache_read.input_tokens gen_ai.usage.cache_read_input_tokens"
        " gen_ai.usage.input_tokens.cached llm.token_count.prompt_details.cache_read ai.usage.cachedInputTokens",
        cache_write="gen_ai.usage.cache_creation.input_tokens gen_ai.usage.cache_creation_input_tokens"
        " gen_ai.usage.input_tokens.cache_write llm.token_count.prompt_details.cache_write",
        agent="gen_ai.conversation.id gen_ai.agent.name session.id service.name traceId",
        status="status.code",
        error="http.response.status_code http.status_code error.type",
        message="status.message",
        id="spanId",
        origin="server.address",
    ),
    only={
        "gen_ai.operation.name": frozenset(
            ["chat", "text_completion", "generate_content", "embeddings", "chat.completions"]
        ),
        # OpenLLMetry, OpenInference, Vercel's AI SDK, Langfuse
        "llm.request.type": frozenset({"chat", "completion", "embedding"}),
        "openinference.span.kind": frozenset({"LLM", "EMBEDDING"}),
        "ai.operationId": frozenset(
            [
                *("ai.generateText.doGenerate", "ai.streamText.doStream", "ai.generateObject.doGenerate"),
                *("ai.streamObject.doStream", "ai.embed.doEmbed", "ai.embedMany.doEmbed"),
            ]
        ),
        "langfuse.observation.type": frozenset({"generation", "embedding"}),
    },
    around="parentSpanId",
)


def layout_of(columns: Iterable[str]) -> Layout | None:
    """The layout of files with these columns."""
    names = set(columns)
    return SPANS if "resourceSpans" in names else next((each for each in LAYOUTS if each.has <= names), None)


def named_columns(text: str) -> Layout:
    """The layout that `start=ts,input=in` names. Raises: UsageError."""
    columns: dict[str, tuple[str, ...]] = {}
    for part in text.split(","):
        meaning, _, name = part.partition("=")
        if meaning.strip() not in MEANINGS or not name.strip():
            raise UsageError(
                f"--columns {part.strip()[:40]!r}: must be NAME=COLUMN, with a NAME of {', '.join(MEANINGS)}"
            )
        columns[meaning.strip()] = (name.strip(),)
    if "start" not in columns:
        raise UsageError("--columns: must say which column is the start, as in start=timestamp")
    return Layout("table", frozenset(), columns)


def rows(path: Path, form: str, tale: Tale) -> Iterator[Row]:
    """The rows of a file of the form `csv`, `jsonl` or `json`. Raises: UsageError."""
    if form == "csv":
        yield from _csv_rows(path, tale)
    elif form == "jsonl":
        for text in lines(path, tale):
            if (row := decoded(text, _anything, tale)) is not None:
                yield from _rows_in(row, tale)
    else:
        with unpacked(path) as file:
            data = file.read(LARGEST + 1).removeprefix(BOM)
        if len(data) > LARGEST:
            raise UsageError(f"{path}: is larger than {LARGEST >> 30} GiB; export it as JSON lines, or less at a time")
        try:
            yield from _rows_in(msgspec.json.decode(data), tale)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise UsageError(f"{path}: isn't whole, or no JSON") from None


def _csv_rows(path: Path, tale: Tale) -> Iterator[Row]:
    with unpacked(path) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")
        try:
            first = text.readline(_WIDEST)
            separator = max(",;\t", key=first.count)
            text.seek(0)
            for row in csv.DictReader(text, delimiter=separator):
                if None in row or None in row.values():
                    tale.skip("rows with more or fewer columns than the first line names")
                else:
                    yield row
        except csv.Error:
            tale.skip("what follows a row that is no CSV")
        finally:
            text.detach()


def _rows_in(value: object, tale: Tale) -> Iterator[Row]:
    if isinstance(value, dict) and "resourceSpans" in value:
        yield from _spans(value)
    elif isinstance(value, dict) and not isinstance(next((value[x] for x in _INSIDE if x in value), None), list):
        yield value
    else:
        found = value if isinstance(value, list) else []
        if isinstance(value, dict):
            found = next(value[name] for name in _INSIDE if isinstance(value.get(name), list))
        for row in found:
            if isinstance(row, dict):
                yield _span(row, {}) if isinstance(row.get("attributes"), list) else row
            else:
                tale.skip("entries that are no objects")
        if not isinstance(value, list | dict):
            tale.skip("lines that aren't whole, or not of its form")


def _spans(value: Row) -> Iterator[Row]:
    """Each span with its attributes and those of its resource as columns."""
    for resource in _list(value.get("resourceSpans")):
        shared = _attributes(resource.get("resource"))
        for scope in (*_list(resource.get("scopeSpans")), *_list(resource.get("instrumentationLibrarySpans"))):
            for span in _list(scope.get("spans")):
                yield _span(span, shared)


_SPAN = {
    name: _snake(name)
    for name in ("traceId", "spanId", "parentSpanId", "status", "startTimeUnixNano", "endTimeUnixNano")
}
"""Names of OTLP's JSON, and those of its protocol buffers, which Phoenix writes."""


def _span(span: Row, shared: Row) -> Row:
    kept = {name: span.get(name, span.get(other)) for name, other in _SPAN.items()}
    return {**shared, **kept, **_attributes(span)}


def _list(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _attributes(value: object) -> dict[str, Any]:
    found = {}
    for each in _list(value.get("attributes") if isinstance(value, dict) else None):
        held = each.get("value")
        if isinstance(each.get("key"), str) and isinstance(held, dict) and held:
            found[each["key"]] = next((value for value in held.values() if value is not None), None)
    return found


def read(path: Path, form: str, layout: Layout) -> Tale:
    """What a file tells. Raises: UsageError: it can't be read."""
    tale = Tale(layout.name, unseen=["limits"])
    names = {name.split(".")[0] for paths in layout.columns.values() for name in paths}
    around = set()
    for row in rows(path, form, tale):
        try:
            told = _told(row, layout)
        except UnreadableEntry as error:
            known = layout is SPANS or not names.isdisjoint(row)
            tale.skip(str(error) if known else f"entries without any column of {layout.name}")
            continue
        if isinstance(told, str):
            tale.skip(told)
        else:
            tale.attempts.append(told)
            around.add(f"{layout.name} {_find(row, layout.around)}" if layout.around else "")
    if layout.around:
        inner = [told for told in tale.attempts if told.ident not in around]
        tale.skipped |= {"spans around another request": out} if (out := len(tale.attempts) - len(inner)) else {}
        tale.attempts = inner
    return tale


def _told(row: Row, layout: Layout) -> Told | str:
    """An attempt, or why the row is none. Raises: UnreadableEntry."""
    if any(str(_find(row, column)).lower() in _CACHED for column in layout.from_cache):
        return "answered from a cache, so no provider was asked"

    def value(meaning: str) -> Any:
        found = (_find(row, column) for column in layout.columns.get(meaning, ()))
        return next((each for each in found if each not in (None, "")), None)

    kinds = (str(kind) in layout.only[column] for column in layout.only if (kind := _find(row, column)) is not None)
    if not next(kinds, layout is not SPANS or value("input") is not None):
        return "no requests of models"
    at = _moment(value("start"), layout)
    told = Told(at, _name(value("agent")) or layout.name, layout.name)
    told.model, told.parent, ident = str(value("model") or ""), _name(value("parent")), value("id")
    told.ident = "" if ident is None else f"{layout.name} {ident}"
    told.origin = _origin(str(value("origin") or ""), told.model)
    told.end = _after(at, layout, value("end"), (value("duration"), 1.0), (value("duration_ms"), 0.001))
    told.first = _after(at, layout, value("first"), (value("ttft"), 1.0), (value("ttft_ms"), 0.001))
    told.usage = _usage(value, layout.apart)
    if told.first is not None:
        if told.end is not None and told.first >= told.end:
            told.first = None  # an answer that isn't a stream: some write its end there
        told.stream = told.first is not None
    status, error = value("status"), value("error")
    told.failed = str(status).lower() in _FAILED or (number(status) or 0) >= 400
    told.failed = told.failed or (layout.empty_fails and count(value("output")) == 0)
    if told.failed:
        found = next((each for each in (number(status), number(error)) if each is not None and each >= 400), None)
        told.status = None if found is None else int(min(found, 999))
        told.limits = stated_limits(value("message"))
    return told


def _find(row: Row, path: str) -> Any:
    """What stands at a path in a row; a column's own name may have dots, and hold JSON as text."""
    if path in row:
        return row[path]
    parts = path.split(".")
    for length in range(1, len(parts)):
        inner = row.get(".".join(parts[:length]))
        if isinstance(inner, str) and inner.startswith("{"):
            try:
                inner = msgspec.json.decode(inner)
            except (msgspec.MsgspecError, RecursionError):
                continue
        if isinstance(inner, dict) and (found := _find(inner, ".".join(parts[length:]))) is not None:
            return found
    return None


def _name(value: object) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _moment(value: object, layout: Layout) -> float:
    if layout.unit_s != 1.0 and (plain := number(value)) is not None and plain < 1e11:
        return moment(plain * layout.unit_s)
    return moment(value)


def _after(at: float, layout: Layout, named: object, *spans: tuple[object, float]) -> float | None:
    """A moment that a row names, or so long after its beginning, in these units."""
    if named is not None:
        try:
            return max(at, _moment(named, layout))
        except UnreadableEntry:
            return None
    for span, unit_s in spans:
        if (found := number(span)) is not None and found > 0:
            return at + found * unit_s
    return None


def _usage(value: Callable[[str], Any], apart: bool) -> Usage | None:
    sent, output = count(value("input")), count(value("output"))
    if sent is None and output is None:
        return None
    cached, written = count(value("cache_read")) or 0, count(value("cache_write")) or 0
    fresh = (sent or 0) if apart else max(0, (sent or 0) - cached - written)
    return Usage(fresh, cached, written, output or 0)


_MAKERS = (
    (("claude", "anthropic"), "https://api.anthropic.com"),
    (("gpt", "chatgpt", "o1", "o3", "o4", "text-embedding"), "https://api.openai.com"),
    (("gemini",), "https://generativelanguage.googleapis.com"),
)


def _origin(stated: str, model: str) -> str:
    """Scheme and host of the API: as it is stated, else that of the model's maker; empty: unknown."""
    scheme, slashes, rest = stated.partition("://")
    host = (rest if slashes else stated).split("/", 1)[0].rpartition("@")[2]
    if host and host.isascii() and host.isprintable() and " " not in host:
        return f"{scheme if slashes else 'https'}://{host}"
    plain = model.lower().rpartition("/")[2]
    return next((origin for names, origin in _MAKERS if plain.startswith(names)), "")
