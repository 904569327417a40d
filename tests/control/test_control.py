"""`/_health`, `/_stats` and `/metrics`, beside the traffic: what each says is what the snapshot says."""

from __future__ import annotations

import asyncio
import errno
import importlib
import json
import math
import os
import time
from collections.abc import Iterable
from typing import Any

import httpx
import pytest
from control.kit import RUN, TOKEN
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text
from proxy.kit import between, client, raw, request
from proxy.wire import ANSWER, PLAIN_BODY, STREAM_BODY

from hivemind import __version__
from hivemind.control import metrics
from hivemind.scheduler.commands import PauseAdmissions, SetBudget, SetCircuit, SubmitTasks
from hivemind.scheduler.types import TaskSpec
from hivemind.store.token_file import ControlKey
from hivemind.world import verdict
from hivemind.world.health import BOUNDS_S


async def test_health() -> None:
    """Health says what the proxy is doing, its version and its age."""
    async with between([ANSWER]) as (proxy, _), client() as web:
        health = (await web.get(f"{proxy.url}/_health")).json()
        assert (health["status"], health["version"]) == ("serving", __version__)
        assert health["uptime_s"] >= 0


async def test_no_file_is_left_for_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control API is imported at its first request; where more clients came than files may be open, it says so,
    and the next request is answered."""

    def exhausted(name: str) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)

    async with between([ANSWER]) as (proxy, _), client() as web:
        with monkeypatch.context() as full:
            full.setattr(importlib, "import_module", exhausted)
            refused = await web.get(f"{proxy.url}/_health")
            assert (refused.status_code, "open files" in refused.json()["error"]) == (503, True)
        assert (await web.get(f"{proxy.url}/_health")).status_code == 200


async def test_health_costs_no_snapshot_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks needs no token, and mustn't be able to keep the proxy busy with it."""

    def costly() -> None:
        raise AssertionError("a snapshot was made")

    async with between([ANSWER]) as (proxy, _), client() as web:
        monkeypatch.setattr(verdict, "RECENT_S", 3600.0)
        assert (await web.get(f"{proxy.url}/_health")).status_code == 200
        monkeypatch.setattr(proxy.proxy.engine, "snapshot", costly)
        assert (await web.get(f"{proxy.url}/_health")).status_code == 200


async def test_health_has_the_verdict_without_names() -> None:
    """A balancer, which has no token, learns how it does, why, and what ends it, but of no agent and no lane."""
    async with between([ANSWER]) as (proxy, _), client() as web:
        assert (await web.get(f"{proxy.url}/_health")).json()["verdict"] == "healthy"
    async with between([ANSWER]) as (proxy, _), client() as web:
        await web.post(f"{proxy.url}/agent/ann/v1/messages", content=PLAIN_BODY)
        (lane,) = proxy.snapshot().lanes
        proxy.proxy.apply(SetCircuit("open", lane.state.lane), "test")
        answer = await web.get(f"{proxy.url}/_health")
        health = answer.json()
        assert (health["status"], health["verdict"], health["cause"]) == ("serving", "blocked", "circuit_forced")
        assert (health["ends"], health["ends_in_s"]) == ("until you set it to automatic", None)
        assert "ann" not in answer.text
        assert lane.state.lane not in answer.text


async def test_health_while_draining() -> None:
    """While it drains, it says so."""
    gate = asyncio.Event()
    async with between([gate, ANSWER]) as (proxy, upstream), client() as web, raw(proxy.port) as in_flight:
        await in_flight.send(request("/v1/messages", PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        draining = asyncio.create_task(proxy.proxy.drain(5))
        await proxy.until(lambda world: world.mode == "draining")
        assert (await web.get(f"{proxy.url}/_health")).json()["status"] == "draining"
        gate.set()
        assert (await in_flight.head())[0] == 200
        await draining


async def test_stats() -> None:
    """The snapshot is JSON: who flies, who waits, every lane's gauges, agents with their usage, and the totals."""
    gate = asyncio.Event()
    async with (
        between([gate, ANSWER], [ANSWER], max_concurrency=1) as (proxy, upstream),
        raw(proxy.port) as one,
        raw(proxy.port) as two,
    ):
        await one.send(request("/agent/alice/v1/messages", PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        await two.send(request("/agent/bob/v1/messages", STREAM_BODY, "x-hivemind-priority: high"))
        await proxy.until(lambda world: world.queued == 1)
        world = await proxy.stats()
        assert [(slot["agent"], slot["state"], slot["priority"]) for slot in world["slots"]] == [
            ("alice", "waiting", "normal")
        ]
        assert [(t["agent"], t["state"], t["priority"], t["stream"]) for t in world["queue"]] == [
            ("bob", "queued", "high", True)
        ]
        (lane,) = world["lanes"]
        assert (lane["state"]["active"], lane["state"]["waiting"], lane["state"]["ceiling"]) == (1, 1, 1.0)
        assert lane["state"]["circuit"] == "closed"
        assert (world["mode"], world["address"], world["upstreams"]) == ("serving", proxy.url, [["lab", upstream.url]])
        gate.set()
        assert [(await one.head())[0], (await two.head())[0]] == [200, 200]
        world = await proxy.stats()
        agents = {agent["name"]: agent for agent in world["agents"]}
        assert agents["alice"]["usage"]["output_tokens"] == 4
        assert (world["totals"]["requests"], world["totals"]["finished"], world["slots"]) == (2, 2, [])


async def test_no_limit_is_null() -> None:
    """A lane without a concurrency limit is still valid JSON."""
    async with between([ANSWER]) as (proxy, _), client() as web:
        await web.post(f"{proxy.url}/v1/messages", content=PLAIN_BODY)
        text = (await web.get(f"{proxy.url}/_stats")).text

        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is not JSON")

        (lane,) = json.loads(text, parse_constant=refuse)["lanes"]
        assert (lane["state"]["level"], lane["state"]["ceiling"]) == (None, None)


async def test_unknown_page_and_method() -> None:
    """What isn't there is a 404, what can't be done a 405, and neither goes upstream."""
    async with between([ANSWER]) as (proxy, upstream), client() as web:
        assert (await web.get(f"{proxy.url}/_nothing")).status_code == 404
        assert (await web.post(f"{proxy.url}/_stats", content=b"{}")).status_code == 405
        assert not upstream.requests


async def test_under_an_agent_it_is_the_upstream_s() -> None:
    """Behind an agent's or an upstream's prefix, such a path is the upstream's."""
    async with between([ANSWER]) as (proxy, upstream), client() as web:
        await web.get(f"{proxy.url}/agent/alice/_stats")
        await web.get(f"{proxy.url}/to/lab/_health")
        assert [raw_request.split(b" ")[1] for raw_request in upstream.requests] == [b"/_stats", b"/_health"]


SCRAPER = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;"
    "q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""As Prometheus 3 sends it."""
AGENTS_TOKEN = {"token": "agents-only"}


def values(families: Iterable[Any]) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name and labels' values, in the order of the labels' names."""
    return {
        (s.name, tuple(value for _, value in sorted(s.labels.items()))): s.value
        for family in families
        for s in family.samples
    }


async def test_vitals() -> None:
    """Histograms since the start, cumulative as Prometheus wants them, and the last minute's rates and quantiles."""
    async with between([ANSWER]) as (proxy, _), client() as web:
        empty = values(plain_text((await web.get(f"{proxy.url}/metrics")).text))
        for _ in range(3):
            await web.post(f"{proxy.url}/agent/ann/v1/messages", content=PLAIN_BODY)
        text = (await web.get(f"{proxy.url}/metrics", headers={"accept": SCRAPER})).text
        vitals = proxy.snapshot().vitals
    found = values(open_metrics(text))  # type: ignore[no-untyped-call]
    assert math.isnan(empty["hivemind_error_share", ()])
    assert math.isnan(empty["hivemind_recent_wait_seconds", ("0.95",)])
    buckets = [found["hivemind_wait_seconds_bucket", (f"{float(bound)}",)] for bound in BOUNDS_S]
    assert buckets == sorted(buckets)
    assert found["hivemind_wait_seconds_bucket", ("+Inf",)] == found["hivemind_wait_seconds_count", ()] == 3
    assert found["hivemind_wait_seconds_sum", ()] == pytest.approx(vitals.waits.sum_s)
    assert found["hivemind_ttft_seconds_count", ()] == sum(vitals.ttfts.bins) == 3
    assert found["hivemind_tokens_per_minute", ()] == vitals.tokens_per_min > 0
    assert found["hivemind_error_share", ()] == found["hivemind_failed_share", ()] == 0
    assert found["hivemind_requests_per_second", ()] > 0
    assert found["hivemind_recent_wait_seconds", ("0.95",)] == vitals.wait_p95_s


async def test_what_is_there() -> None:
    """Totals, agents, lanes, windows, budgets and tasks, each as the snapshot has it."""
    head = "\r\nanthropic-ratelimit-unified-5h-"
    plan = f"{head}utilization: 0.83{head}reset: {time.time() + 9000:.0f}\r\n".encode()
    async with between([ANSWER.replace(b"\r\n", plan, 1)], rpm=50, max_concurrency=4) as (proxy, _), client() as web:
        for name in ("ann", "ann", "bob"):
            await web.post(f"{proxy.url}/agent/{name}/v1/messages", content=PLAIN_BODY)
        proxy.proxy.apply(SetBudget("ann", 5000), "test")
        proxy.proxy.apply(SetBudget(None, dollars=9.5), "test")
        proxy.proxy.apply(SubmitTasks((TaskSpec("a"), TaskSpec("b", after=("a",)))), "test")
        world = proxy.snapshot()
        found = values(plain_text((await web.get(f"{proxy.url}/metrics")).text))
    assert found["hivemind_requests_total", ()] == found["hivemind_requests_finished_total", ()] == 3
    assert found["hivemind_agent_requests_total", ("ann",)] == 2
    assert found["hivemind_tokens_total", ("output",)] == world.totals.usage.output_tokens > 0
    assert found["hivemind_agent_tokens_total", ("bob", "input")] == world.agents[1].usage.input_tokens > 0
    assert found["hivemind_event_loop_tasks", ()] > 0
    assert [found["hivemind_verdict", (state,)] for state in ("healthy", "blocked")] == [1, 0]
    assert found["hivemind_findings", ("agent_died",)] == found["hivemind_findings", ("circuit_open",)] == 0
    lane = world.lanes[0].state
    assert found["hivemind_lane_ceiling", (lane.lane, "lab")] == 4
    assert [found["hivemind_lane_circuit", (lane.lane, s, "lab")] for s in ("closed", "half_open", "open")] == [1, 0, 0]
    windows = {labels[0]: value for (name, labels), value in found.items() if name == "hivemind_window_limit"}
    assert windows == {"requests": 50}
    assert [each for (_, labels), each in found.items() if "5h" in labels] == [0.83, pytest.approx(9000, abs=900), 0]
    assert found["hivemind_budget_limit_tokens", ("ann", "agent", "run")] == 5000
    budget = world.agents[0].budget
    assert budget is not None
    assert found["hivemind_budget_used_tokens", ("ann", "agent", "run")] == budget.used_tokens > 0
    assert found["hivemind_budget_limit_dollars", ("", "all", "run")] == 9.5
    assert (found["hivemind_tasks", ("ready",)], found["hivemind_tasks", ("waiting",)]) == (1, 1)
    assert (found["hivemind_tasks", ("done",)], found["hivemind_mode", ("serving",)]) == (0, 1)


async def test_what_flies_and_waits() -> None:
    """Gauges are of the moment."""
    gate = asyncio.Event()
    async with (
        between([gate, ANSWER], max_concurrency=1) as (proxy, upstream),
        raw(proxy.port) as one,
        raw(proxy.port) as two,
        client() as web,
    ):
        await one.send(request("/agent/ann/v1/messages", PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        await two.send(request("/agent/bob/v1/messages", PLAIN_BODY))
        await proxy.until(lambda world: world.queued == 1)
        proxy.proxy.apply(PauseAdmissions(True), "test")
        found = values(plain_text((await web.get(f"{proxy.url}/metrics")).text))
        assert (found["hivemind_in_flight", ()], found["hivemind_queue_length", ()]) == (1, 1)
        assert (found["hivemind_mode", ("paused",)], found["hivemind_mode", ("serving",)]) == (1, 0)
        gate.set()


async def test_open_metrics() -> None:
    """Whoever asks for OpenMetrics gets that, and it says the same; no limit is infinite."""
    async with between([ANSWER]) as (proxy, _), client() as web:
        await web.post(f"{proxy.url}/agent/ann/v1/messages", content=PLAIN_BODY)
        asked = {"accept": SCRAPER}
        answer = await web.get(f"{proxy.url}/metrics", headers=asked)
        other = await web.get(f"{proxy.url}/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert other.headers["content-type"].startswith("text/plain")
    assert answer.text.endswith("# EOF\n")
    one = values(open_metrics(answer.text))  # type: ignore[no-untyped-call]  # the library's own parser
    two = values(plain_text(other.text))
    assert one.keys() == two.keys()
    assert [value for (name, _), value in one.items() if name == "hivemind_lane_level"] == [float("inf")]


@pytest.mark.parametrize("parser", [plain_text, open_metrics])
def test_any_label_and_number(parser: Any) -> None:
    """Both formats are read back as they were meant, whatever a label holds and however large a number is."""
    names = ["", 'a "b"', "c\\n", "d\\", "e\nf", "{g},h=", "\u00e9\u2028"]
    numbers = [0, True, 1e300, 0.1, math.inf, 10**17, -1.5]
    rows = [(metrics.labels_of(name=name, last="1"), number) for name, number in zip(names, numbers, strict=True)]
    page = metrics.Metric("x", "gauge", "Some.", rows).text(open_metrics=parser is open_metrics) + "# EOF\n"
    (family,) = parser(page)
    assert [(each.labels["name"], each.value) for each in family.samples] == [*zip(names, numbers, strict=True)]


async def test_agents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many agents there are, only so many have series; the totals count all."""
    monkeypatch.setattr(metrics, "AGENTS_SHOWN", 5)
    async with between([ANSWER]) as (proxy, _), client() as web:
        for n in range(8):
            await web.post(f"{proxy.url}/agent/a{n}/v1/messages", content=PLAIN_BODY)
        found = values(plain_text((await web.get(f"{proxy.url}/metrics")).text))
    shown = [labels[0] for name, labels in found if name == "hivemind_agent_requests_total"]
    assert (len(shown), "a0" in shown, "a7" in shown) == (5, False, True)
    assert found["hivemind_agents_left_out", ()] == 3
    assert found["hivemind_requests_total", ()] == 8


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic agents-only"}, 401),
        ({"authorization": "Bearer agents-only"}, 200),
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"x-hivemind-token": "agents-only"}, 200),
    ],
)
async def test_who_may(headers: dict[str, str], status: int) -> None:
    """Where agents need a token, so does a scraper: theirs, or the control token."""
    async with between([ANSWER], **AGENTS_TOKEN) as (proxy, upstream), client() as web:
        proxy.proxy.control_key = ControlKey(RUN, TOKEN)
        assert (await web.get(f"{proxy.url}/metrics", headers=headers)).status_code == status
        assert not upstream.requests


async def test_the_control_token_never_goes_upstream() -> None:
    """It opens the proxy's own page alone: what is for an upstream wants the agents' token."""
    async with between([ANSWER], **AGENTS_TOKEN) as (proxy, upstream), client() as web:
        proxy.proxy.control_key = ControlKey(RUN, TOKEN)
        shown = {"authorization": f"Bearer {TOKEN}"}
        answers = [
            await web.post(f"{proxy.url}/metrics", headers=shown),
            await web.get(f"{proxy.url}/agent/ann/metrics", headers=shown),
            await web.get(f"{proxy.url}/v1/models", headers=shown),
        ]
        assert [answer.status_code for answer in answers] == [401] * 3
        assert not upstream.requests


@pytest.mark.parametrize(("method", "path"), [("POST", "/metrics"), ("GET", "/agent/ann/metrics")])
async def test_an_upstream_s_own(method: str, path: str) -> None:
    """Behind an agent's name, or with another method, such a path is the upstream's."""
    async with between([ANSWER]) as (proxy, upstream), client() as web:
        answer: httpx.Response = await web.request(method, f"{proxy.url}{path}", content=PLAIN_BODY)
        assert answer.status_code == 200
        assert len(upstream.requests) == 1
