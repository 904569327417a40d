"""Spans and metrics of what happens in a proxy, sent to a receiver of OTLP/HTTP by OpenTelemetry's own SDK.

On the event loop events are only put into a queue. A thread makes spans of them and sends these, so a receiver that is
away or slow holds nothing up; the queue is bounded, and what is dropped is told in one line. Names and units follow the
semantic conventions for generative AI (https://opentelemetry.io/docs/specs/semconv/gen-ai/); what these don't know is
called `hivemind.…`. Attempts and waits are children of a request's span, which alone bears operation and tokens: a
receiver may add up what every span bears (Arize Phoenix 20.26 does).
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from hivemind import __version__
from hivemind.errors import UsageError
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage
from hivemind.text.humanise import plural
from hivemind.world.lifecycle import Lifecycle, OpenRequests

try:
    import requests
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
except ImportError:
    raise UsageError("--otlp needs a library that isn't installed: pip install 'hivemind-tui[otlp]'") from None

_log = logging.getLogger(__name__)

EVERY_S: Final = 1.0
"""Between two looks at the queue."""
METRICS_EVERY_S: Final = 10.0
WAITING_MOST: Final = 20_000
"""Events in the queue; a request has about five."""
AT_ONCE: Final = 128
"""Spans sent in one go: their encoding keeps other threads from running for milliseconds."""
CLOSE_S: Final = 2.0
"""How long sending may go on when the proxy ends."""
_DURATIONS = [0.01 * 2**power for power in range(14)]
_TOKENS = [float(4**power) for power in range(14)]
"""Boundaries of histograms, as the conventions give them."""
_OPERATIONS = (
    ("embeddings", re.compile(r"embed", re.IGNORECASE)),
    ("generate_content", re.compile(r":[a-z]*generateContent$", re.IGNORECASE)),
    ("text_completion", re.compile(r"(?<!chat)/completions$|/api/generate$", re.IGNORECASE)),
)
_PROVIDERS = {"google": "gcp.gemini", "azure": "azure.ai.openai"}
"""The conventions' names, where ours differ."""

Attributes = dict[str, str | bool | int | float]


class Telemetry:
    """Sends what happens in a proxy, from :meth:`start` to :meth:`aclose`.

    `url` is the receiver's base URL, to which the signals' paths are added; `wall` is the time of day in seconds since
    the epoch. Headers, as a receiver's key, and certificates are read by the SDK from its own variables, such as
    `OTEL_EXPORTER_OTLP_HEADERS`.
    """

    def __init__(self, url: str, wall: Callable[[], float]) -> None:
        for name in ("opentelemetry", "urllib3"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # they log each failure, and URLs
        self._wall = wall
        self._waiting: deque[ev.Event] = deque()
        self._dropped = 0
        self._requests = OpenRequests(Lifecycle)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="send telemetry", daemon=True)
        self._taken = {"spans": _Taken(), "metrics": _Taken()}
        base = url.rstrip("/")
        self._spans = OTLPSpanExporter(f"{base}/v1/traces", session=self._taken["spans"].session)
        self._metrics = OTLPMetricExporter(f"{base}/v1/metrics", session=self._taken["metrics"].session)
        resource = Resource.create({"service.name": "hivemind", "service.version": __version__})
        self._ended = _Ended()
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracers.add_span_processor(self._ended)
        self._tracer = tracers.get_tracer("hivemind", __version__)
        self._reader = InMemoryMetricReader()
        self._meters = MeterProvider((self._reader,), resource, shutdown_on_exit=False)
        meter = self._meters.get_meter("hivemind", __version__)

        def seconds(name: str, text: str, unit: str = "s", marks: Sequence[float] = _DURATIONS) -> Callable[..., None]:
            made = meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=marks)
            return made.record

        self._duration = seconds("gen_ai.client.operation.duration", "From a request's arrival to its end.")
        self._first = seconds("gen_ai.client.operation.time_to_first_chunk", "From an attempt's beginning.")
        self._tokens = seconds("gen_ai.client.token.usage", "Tokens used, as far as known.", "{token}", _TOKENS)
        self._waited = seconds("hivemind.wait", "Time that requests waited before an attempt or their end.")
        self._failed = meter.create_counter("hivemind.attempts.failed", "{attempt}", "Attempts that failed.").add
        self._refused = meter.create_counter("hivemind.refusals", "{request}", "Requests that HiveMind refused.").add

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def record(self, events: Sequence[ev.Event]) -> None:
        """Take events; all that is done on the path of a request."""
        if len(self._waiting) < WAITING_MOST:
            self._waiting.extend(events)
        else:
            self._dropped += len(events)

    async def aclose(self) -> None:
        """Send what is left, but no longer than a moment."""
        self._closing.set()
        await asyncio.to_thread(self._thread.join, CLOSE_S)
        self._spans.shutdown()  # type: ignore[no-untyped-call]
        self._metrics.shutdown()
        self._meters.shutdown()

    # --- On the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        next_metrics = time.monotonic() + METRICS_EVERY_S
        while not self._closing.wait(EVERY_S):
            self._send_spans()
            if time.monotonic() >= next_metrics:
                self._send_metrics()
                next_metrics = time.monotonic() + METRICS_EVERY_S
        self._send_spans()
        self._send_metrics()

    def _send_spans(self) -> None:
        offset_s = self._wall() - time.monotonic()
        for _ in range(len(self._waiting)):
            event = self._waiting.popleft()
            request = None
            for each in ev.apart(event):
                request = self._requests.apply(each)
            if request is not None and request.end is not None:
                self._end(request, offset_s)
            elif isinstance(event, ev.Refused) and event.ticket is None:
                self._refuse_unticketed(event, offset_s)
            elif isinstance(event, ev.Finished) and not event.attempts and event.usage is not None:
                provider = self._requests.providers.get(event.lane, "")
                self._count(event.usage, _naming("chat", provider, event.model))  # of work in the background
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._requests.by_ticket.clear()  # their ends may be among what is missing
            _log.warning("the OTLP receiver is slow: %s dropped, and with them some spans", plural(dropped, "event"))
        ended = iter(self._ended.take())
        while batch := list(islice(ended, AT_ONCE)):
            self._taken["spans"].tell("spans", len(batch), self._spans.export(batch) is SpanExportResult.SUCCESS)

    def _send_metrics(self) -> None:
        data = self._reader.get_metrics_data()
        if data is not None:
            sent = self._metrics.export(data) is MetricExportResult.SUCCESS
            self._taken["metrics"].tell("metrics", 0, sent)

    def _end(self, request: Lifecycle, offset_s: float) -> None:
        """Make the spans of a request that has ended, and count it."""
        arrived, end = request.arrived, request.end
        assert end is not None
        operation = next((name for name, pattern in _OPERATIONS if pattern.search(arrived.path)), "chat")
        naming = _naming(operation, request.provider, arrived.model)
        error = _error(end)
        root = self._span(_titled(naming), arrived.at, offset_s, None, SpanKind.CLIENT)
        root.set_attributes(
            {
                **naming,
                "gen_ai.request.stream": arrived.stream,
                "gen_ai.agent.name": arrived.agent,
                "hivemind.client": arrived.client,
                "hivemind.priority": request.priority.name.lower(),
                "hivemind.end": request.state,
                "hivemind.attempts": request.attempt,
                **({} if request.usage is None else _usage(request.usage)),
            }
        )
        if arrived.parent is not None:
            root.set_attribute("hivemind.agent.parent", arrived.parent)
        if arrived.max_output_tokens is not None:
            root.set_attribute("gen_ai.request.max_tokens", arrived.max_output_tokens)
        since: float | None = arrived.at
        for attempt in request.attempts:
            began = attempt.granted.at
            self._wait(attempt.queued_at if since is None else since, began, offset_s, root, naming)
            since = None
            span = self._span(f"attempt {attempt.granted.attempt}", began, offset_s, root, SpanKind.CLIENT)
            span.set_attribute("hivemind.attempt", attempt.granted.attempt)
            if attempt.first_content_at is not None:
                span.add_event("first content", timestamp=_nanoseconds(attempt.first_content_at + offset_s))
                ttft_s = max(0.0, attempt.first_content_at - began)
                root.set_attribute("gen_ai.response.time_to_first_chunk", ttft_s)
                self._first(ttft_s, naming)
            if attempt.status is not None:
                span.set_attribute("http.response.status_code", attempt.status)
            kind = "" if attempt.end is None else _error(attempt.end)
            if attempt.failed is not None:
                since = attempt.failed.at
                self._failed(1, {**naming, "error.type": kind})
                if attempt.failed.delay_s is not None:
                    span.set_attribute("hivemind.retry_after_s", attempt.failed.delay_s)
            _close(span, end.at if attempt.ended_at is None else attempt.ended_at, offset_s, kind)
        waits_since = request.waits_since
        if waits_since is not None:
            self._wait(waits_since, end.at, offset_s, root, naming)
        if isinstance(end, ev.Refused):
            self._refuse(end, offset_s, root, naming)
        _close(root, end.at, offset_s, error)
        self._duration(max(0.0, end.at - arrived.at), {**naming, **({"error.type": error} if error else {})})
        if request.usage is not None:
            self._count(request.usage, naming)

    def _refuse_unticketed(self, refused: ev.Refused, offset_s: float) -> None:
        naming = _naming("chat", self._requests.providers.get(refused.lane, ""), "")
        root = self._span(_titled(naming), refused.at, offset_s, None, SpanKind.CLIENT)
        root.set_attributes({**naming, "gen_ai.agent.name": refused.agent, "hivemind.end": "refused"})
        self._refuse(refused, offset_s, root, naming)
        _close(root, refused.at, offset_s, refused.reason)

    def _refuse(self, refused: ev.Refused, offset_s: float, root: Span, naming: Attributes) -> None:
        span = self._span("refusal", refused.at, offset_s, root)
        span.set_attribute("http.response.status_code", refused.status)
        _close(span, refused.at, offset_s, refused.reason)
        self._refused(1, {**naming, "error.type": refused.reason})

    def _wait(self, since: float, until: float, offset_s: float, root: Span, naming: Attributes) -> None:
        self._waited(max(0.0, until - since), naming)
        if until > since:
            _close(self._span("wait", since, offset_s, root), until, offset_s)

    def _span(
        self, name: str, at: float, offset_s: float, root: Span | None, kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        context = None if root is None else set_span_in_context(root)
        return self._tracer.start_span(name, context, kind, start_time=_nanoseconds(at + offset_s))

    def _count(self, usage: Usage, naming: Attributes) -> None:
        self._tokens(usage.total_input, {**naming, "gen_ai.token.type": "input"})
        self._tokens(usage.output_tokens, {**naming, "gen_ai.token.type": "output"})


class _Ended(SpanProcessor):
    """Collects spans that have ended."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def take(self) -> list[ReadableSpan]:
        """Return what was collected since the last time."""
        taken, self._spans = self._spans, []
        return taken


class _Taken:
    """Whether the receiver takes a signal; tells once when it doesn't, and once when it does again."""

    def __init__(self) -> None:
        self.session = requests.Session()
        self.session.trust_env = False  # as the webhook: no proxy, and no password of ~/.netrc
        self.session.hooks["response"].append(self._note)
        self._status = 0
        self._failing = False
        self._lost = 0

    def tell(self, what: str, count: int, sent: bool) -> None:
        """Note what became of so many."""
        status, self._status = self._status, 0
        if not sent:
            self._lost += count
            if not self._failing:
                why = f"it answers {status}" if status else "it is away or slow"
                _log.warning("the OTLP receiver takes no %s (%s): they are dropped, and traffic goes on", what, why)
        elif self._failing:
            _log.warning("the OTLP receiver takes %s again; %d were dropped", what, self._lost)
            self._lost = 0
        self._failing = not sent

    def _note(self, answer: requests.Response, *_: object, **__: object) -> None:
        self._status = answer.status_code


def _naming(operation: str, provider: str, model: str) -> Attributes:
    """Return the attributes that a span and its metrics share."""
    named: Attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider or "generic"),
    }
    return {**named, "gen_ai.request.model": model} if model else named


def _titled(naming: Mapping[str, object]) -> str:
    return f"{naming['gen_ai.operation.name']} {naming.get('gen_ai.request.model', '')}".strip()


def _usage(usage: Usage) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": usage.total_input,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        **({"hivemind.usage.estimated_tokens": usage.estimated_tokens} if usage.estimated_tokens else {}),
    }


def _error(end: ev.Event) -> str:
    """Return the kind of an error; empty: it is none. Never its text, which the provider wrote."""
    match end:
        case ev.AttemptFailed():
            return end.kind.value
        case ev.Refused():
            return end.reason
        case ev.Abandoned():
            return "client_left"
    return ""


def _close(span: Span, at: float, offset_s: float, error: str = "") -> None:
    if error:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    span.end(_nanoseconds(at + offset_s))


def _nanoseconds(moment: float) -> int:
    return round(moment * 1e9)
