"""`/_health` and `/_stats`, beside the traffic."""

from __future__ import annotations

import asyncio
import errno
import importlib
import json
import os

import pytest
from proxy.kit import between, client, raw, request
from proxy.wire import ANSWER, PLAIN_BODY, STREAM_BODY

from hivemind import __version__
from hivemind.scheduler.commands import SetCircuit
from hivemind.world import verdict


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
