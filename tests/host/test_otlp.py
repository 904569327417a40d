"""Spans and metrics for OpenTelemetry, at a real OTLP/HTTP receiver that decodes them by the protocol's own library."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `otlp` isn't installed")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from proxy.kit import between, client

from hivemind.cli.main import main
from hivemind.host import otlp
from hivemind.host.otlp import Telemetry
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage

BODY = json.dumps({"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "PROMPT-CANARY"}]})
USAGE = {"input_tokens": 7, "cache_read_input_tokens": 90, "output_tokens": 3}
CONTENT = [{"type": "text", "text": "ANSWER-CANARY"}]
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "stop_reason": "end_turn"}
ANSWER = json.dumps({**MESSAGE, "content": CONTENT, "usage": USAGE}).encode()
REFUSAL = b'{"type":"error","error":{"type":"rate_limit_error","message":"WORDS-CANARY"}}'


def response(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


class Receiver:
    """What came, decoded; `hold` makes it slow, `status` is what it answers."""

    def __init__(self) -> None:
        self.url = ""
        self.raw = b""
        self.spans: list[Span] = []
        self.metrics: dict[str, list[Any]] = {}
        self.status = 200
        self.hold = threading.Event()
        self.hold.set()

    def take(self, path: str, body: bytes) -> None:
        self.raw += body
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.spans += scope.spans
        else:
            for metered in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scoped in metered.scope_metrics:
                    for metric in scoped.metrics:
                        self.metrics[metric.name] = [*(metric.histogram.data_points or metric.sum.data_points)]

    def tree(self) -> list[tuple[str, str, dict[str, object]]]:
        """The spans as name, name of the parent and attributes, by their beginnings."""
        names = {span.span_id: span.name for span in self.spans}
        by_time = sorted(self.spans, key=lambda span: (span.start_time_unix_nano, bool(span.parent_span_id)))
        return [(span.name, names.get(span.parent_span_id, ""), attributes(span)) for span in by_time]


def attributes(of: Any) -> dict[str, object]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of.attributes}


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.hold.wait(30)
            if receiver.status == 200:
                receiver.take(self.path, body)
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield receiver
        finally:
            receiver.hold.set()
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "EVERY_S", 0.01)
    monkeypatch.setattr(otlp, "CLOSE_S", 30.0)


async def test_a_request_through_the_proxy_is_a_span_with_its_attempts_and_waits() -> None:
    """Its usage is the provider's; nothing of prompt, answer, key or error text is sent."""
    plays = [response(b"429 No", REFUSAL)], [response(b"200 OK", ANSWER)]
    with receiving() as receiver:
        async with between(*plays, otlp=receiver.url, profile="anthropic") as (running, _), client() as http:
            headers = {"x-api-key": "KEY-CANARY-0123456789", "x-hivemind-agent": "ann"}
            answer = await http.post(f"{running.url}/v1/messages", content=BODY, headers=headers)
            assert answer.status_code == 200
        names = [(name, parent) for name, parent, _ in receiver.tree()]
        request = "chat claude-x"
        assert [each for each in names if each[0] != "wait"] == [
            (request, ""),
            ("attempt 1", request),
            ("attempt 2", request),
        ]
        assert ("wait", request) in names
        root, first, second = (each for name, _, each in receiver.tree() if name != "wait")
        assert root == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "claude-x",
            "gen_ai.request.stream": False,
            "gen_ai.request.max_tokens": 9,
            "gen_ai.agent.name": "ann",
            "gen_ai.usage.input_tokens": 97,
            "gen_ai.usage.output_tokens": 3,
            "gen_ai.usage.cache_read.input_tokens": 90,
            "gen_ai.usage.cache_creation.input_tokens": 0,
            "gen_ai.response.time_to_first_chunk": root["gen_ai.response.time_to_first_chunk"],
            "hivemind.attempts": 2,
            "hivemind.client": root["hivemind.client"],
            "hivemind.end": "answered",
            "hivemind.priority": "normal",
        }
        assert (first["error.type"], first["http.response.status_code"]) == ("rate_limited", 429)
        assert ("error.type" in second, second["http.response.status_code"]) == (False, 200)
        assert not [
            name for each in (first, second) for name in each if name.startswith("gen_ai.")
        ]  # else counted twice
        tokens = receiver.metrics["gen_ai.client.token.usage"]
        assert {attributes(point)["gen_ai.token.type"]: point.sum for point in tokens} == {"input": 97, "output": 3}
        assert [point.count for point in receiver.metrics["gen_ai.client.operation.duration"]] == [1]
        assert [point.as_int for point in receiver.metrics["hivemind.attempts.failed"]] == [1]
        assert b"CANARY" not in receiver.raw
        began, ended = receiver.spans[-1].start_time_unix_nano, receiver.spans[-1].end_time_unix_nano
        assert time.time() - 60 < began / 1e9 <= ended / 1e9 < time.time() + 1


def arrived(at: float, ticket: int, path: str = "/v1/messages") -> ev.Arrived:
    return ev.Arrived(at, ticket, "ann", "lane", "m", "m", Priority.NORMAL, True, 1, 1, path=path)


ENDS: dict[str, tuple[list[ev.Event], list[tuple[str, str, int]]]] = {
    "refused by HiveMind before an attempt": (
        [arrived(1, 1), ev.Refused(3, 1, "ann", "lane", "budget", 429)],
        [("chat m", "budget", 2), ("wait", "", 2), ("refusal", "budget", 0)],
    ),
    "refused without a ticket": (
        [ev.Refused(3, None, "ann", "lane", "too_large", 413)],
        [("chat", "too_large", 0), ("refusal", "too_large", 0)],
    ),
    "left between two attempts": (
        [
            arrived(1, 1, "/v1/embeddings"),
            ev.Granted(1, 1, "ann", "lane", 1, 0.0),
            ev.AttemptFailed(2, 1, "ann", "lane", 1, FailureKind.OVERLOADED, 529, "full", 5.0),
            ev.Abandoned(4, 1, "ann", "lane", False),
        ],
        [("embeddings m", "client_left", 3), ("attempt 1", "overloaded", 1), ("wait", "", 2)],
    ),
    "failed for good after a wait": (
        [
            arrived(1, 1, "/v1beta/models/m:streamGenerateContent"),
            ev.Granted(2, 1, "ann", "lane", 1, 1.0),
            ev.AttemptFailed(4, 1, "ann", "lane", 1, FailureKind.QUOTA, 429, "empty", None, Usage(5)),
        ],
        [("generate_content m", "quota", 3), ("wait", "", 1), ("attempt 1", "quota", 2)],
    ),
    "an unknown one, as after a gap": ([ev.Finished(4, 7, "ann", "lane", "m", 200, 1, Usage(5), 1.0)], []),
}


@pytest.mark.parametrize(("events", "spans"), ENDS.values(), ids=ENDS)
async def test_each_end_has_its_spans(events: list[ev.Event], spans: list[tuple[str, str, int]]) -> None:
    """Names, kinds of errors and seconds."""
    with receiving() as receiver:
        telemetry = Telemetry(receiver.url, time.time)
        telemetry.record(events)
        telemetry.start()
        await telemetry.aclose()
        lasted_s = [round((each.end_time_unix_nano - each.start_time_unix_nano) / 1e9) for each in receiver.spans]
        by_name = {each.name: s for each, s in zip(receiver.spans, lasted_s, strict=True)}
        found = [(name, each.get("error.type", ""), by_name[name]) for name, _, each in receiver.tree()]
        assert sorted(found) == sorted(spans)


async def test_a_receiver_that_hangs_or_fails_holds_nothing_and_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While it does, requests are answered, and no more than the bound waits."""
    monkeypatch.setattr(otlp, "WAITING_MOST", 8)
    with receiving() as receiver:
        receiver.status = 401
        receiver.hold.clear()
        url = receiver.url.replace("//", "//user:URL-CANARY@")
        async with between([response(b"200 OK", ANSWER)], otlp=url) as (running, _), client() as http:
            telemetry = running.proxy._telemetry
            assert telemetry is not None
            while not telemetry._dropped:
                assert (await http.post(f"{running.url}/v1/messages", content=BODY)).status_code == 200
            assert len(telemetry._waiting) < 20
            receiver.hold.set()
        lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
        assert [line for line in lines if "spans (" in line] == [
            "the OTLP receiver takes no spans (it answers 401): they are dropped, and traffic goes on"
        ]
        assert any("the OTLP receiver is slow: " in line for line in lines)
        assert "URL-CANARY" not in caplog.text


def test_without_the_extra_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "hivemind.host.otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    code = main(["proxy", "--port", "0", "--upstream", "http://127.0.0.1:9", "--otlp", "http://127.0.0.1:9"])
    line = "hivemind: --otlp needs a library that isn't installed: pip install 'hivemind-tui[otlp]'\n"
    assert (code, capsys.readouterr().err) == (2, line)
