"""What the operator may do, over every endpoint of the control API's table."""

from __future__ import annotations

from pathlib import Path

import httpx
from security.kit import AGENTS, CONTROL, endpoints
from tools.kit import served

from hivemind.scheduler.commands import StopAgent

BEARER = {"authorization": f"Bearer {CONTROL}"}
KEY = "key-of-ann-0123456789"


async def test_every_endpoint_opens_to_the_control_token(tmp_path: Path) -> None:
    """And to no other token beside it: agents' tokens aren't asked for there."""
    async with (
        served(tmp_path, token=AGENTS, control_token=CONTROL) as proxy,
        httpx.AsyncClient(timeout=60, trust_env=False) as web,
    ):
        for method, path in endpoints():
            answer = await web.request(method, proxy.address + path, headers=BEARER, content=b"{}")
            # Nothing is there yet, and no body is right, but the door is open.
            assert answer.status_code in (200, 404, 422), path
            wrong = await web.request(method, proxy.address + path, headers={"authorization": f"Bearer {AGENTS}"})
            assert wrong.status_code == 401, path


async def test_no_endpoint_gives_a_key(tmp_path: Path) -> None:
    """Of a proxy with a request, a checkpoint, tokens and a task, no answer holds a key or a token."""
    agents = {"credentials": {"bob": "token-of-bob-0123456789"}}
    secrets = (KEY, CONTROL, AGENTS, "token-of-bob-0123456789")
    async with (
        served(tmp_path, token=AGENTS, control_token=CONTROL, agents=agents) as proxy,
        httpx.AsyncClient(timeout=60, trust_env=False, headers=BEARER) as web,
    ):
        sent = {"x-hivemind-token": AGENTS, "x-api-key": KEY}
        body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": f"mine is {KEY}"}]}
        await web.post(f"{proxy.address}/agent/ann/v1/messages", json=body, headers=sent)
        proxy.apply(StopAgent("ann", True), "test")
        assert proxy._checkpointer is not None
        assert await proxy._checkpointer.written("ann")
        for method, path in endpoints():
            place = path.replace("/checkpoints/a", "/checkpoints/ann")
            answer = await web.request(method, proxy.address + place, content=b"{}")
            assert method == "POST" or answer.status_code == 200, place
            assert [secret for secret in secrets if secret in answer.text] == []
