"""Credentials go upstream and nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from ports import unused_port
from proxy.kit import Close, Play, Reset, between, client, proxying
from proxy.wire import ANSWER, PLAIN_BODY, anthropic_error, http

from hivemind.scheduler.events import Event
from hivemind.world.world import World

KEY = "sk-ant-api03-THISISSECRET0123456789"
TOKEN = "hm-token-ALSOSECRET"
WAYS = ({"x-api-key": KEY}, {"authorization": f"Bearer {KEY}"}, {"api-key": KEY}, {"x-goog-api-key": KEY})
PLAYS: list[Play] = [
    [http(502)],
    [Reset()],
    [ANSWER],
    [http(401, anthropic_error("authentication_error", f"invalid x-api-key {KEY}"))],
    [http(400, {"error": {"type": KEY, "code": KEY, "message": KEY}})],
    [b"HTTP/1.1 200 " + KEY.encode(), Close()],
    [ANSWER],
]


async def test_nowhere_else(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Through successes, failures and refusals, no log line, event, snapshot or error of ours has the credential."""
    caplog.set_level(logging.DEBUG)
    events: list[Event] = []
    follow = World.follow

    def record(self: World, new: Sequence[Event]) -> None:
        events.extend(new)
        follow(self, new)

    monkeypatch.setattr(World, "follow", record)
    async with between(*PLAYS, token=TOKEN) as (proxy, upstream), client() as web:
        for headers in WAYS:
            own = {**headers, "x-hivemind-token": TOKEN}
            await web.post(f"{proxy.url}/v1/messages", content=PLAIN_BODY, headers=own)
        for path in (f"/v1beta/models/g:generateContent?key={KEY}", f"/to/nowhere/v1/messages?key={KEY}"):
            answer = await web.post(f"{proxy.url}/token/{TOKEN}{path}", content=PLAIN_BODY)
        assert (answer.status_code, KEY in answer.text) == (404, False)
        stats = await web.get(f"{proxy.url}/token/{TOKEN}/_stats")
        assert len(stats.json()["agents"]) >= 1
        assert events
        assert any(KEY in request.decode() for request in upstream.requests)
        logged = [entry.getMessage() for entry in caplog.records if not entry.name.startswith("http")]
        everything = f"{events!r}{stats.text}{logged!r}"
        assert [secret for secret in (KEY, TOKEN) if secret in everything] == []


async def test_proxy_s_own_errors() -> None:
    """What we say of an upstream that can't be reached has no credential in it."""
    async with proxying(f"lab=http://127.0.0.1:{unused_port()}", retry={"max_attempts": 1}) as proxy, client() as web:
        for headers in WAYS:
            answer = await web.post(f"{proxy.url}/v1/messages?key={KEY}", content=PLAIN_BODY, headers=headers)
            assert (answer.status_code, KEY in answer.text) == (502, False)
