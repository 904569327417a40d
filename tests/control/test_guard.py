"""Who may steer: the holder of the control token, on the real proxy."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator

import httpx
import pytest
from control.kit import BEARER, TOKEN
from proxy.kit import Running, between, client
from proxy.wire import ANSWER, PLAIN_BODY

from hivemind.store.token_file import ControlKey

AGENTS = "token-of-the-agents"
ORDER = {"name": "PauseAdmissions", "arguments": {"paused": True}, "who": "ops"}


@contextlib.asynccontextmanager
async def steered(key: ControlKey | None, token: str | None = None) -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    """A proxy that this key opens, and a client."""
    async with between([ANSWER], token=token) as (running, upstream), client() as web:
        running.proxy.control_key = key
        yield running, web
        assert not upstream.requests


KEY = ControlKey("run-1", TOKEN)


async def test_the_token_opens_it() -> None:
    """With it a command is carried out, and told with who gave it."""
    async with steered(KEY) as (running, web):
        done = await web.post(f"{running.url}/_control/commands", json=ORDER, headers=BEARER)
        assert (done.status_code, running.snapshot().mode) == (200, "paused")
        assert running.snapshot().lines[-1].text == "everything paused, by ops"


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, "send the control token, as in Authorization: Bearer TOKEN"),
        ({"authorization": "Bearer"}, "send the control token"),
        ({"authorization": f"Basic {TOKEN}"}, "send the control token"),
        ({"authorization": TOKEN}, "send the control token"),
        ({"authorization": "Bearer nonsense"}, "that is not this proxy's control token"),
        ({"authorization": "Bearer n\xf6nsense"}, "that is not this proxy's control token"),
        ({"authorization": f"Bearer {AGENTS}"}, "that is not this proxy's control token"),
        ({"x-hivemind-token": TOKEN}, "send the control token"),
        ({"x-hivemind-token": AGENTS}, "send the control token"),
    ],
)
@pytest.mark.parametrize("token", [None, AGENTS])
async def test_nothing_else_does(headers: dict[str, str], said: str, token: str | None) -> None:
    """Without it nobody learns a thing, not even what is there; the agents' token is no help."""
    shown = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    async with steered(KEY, token) as (running, web):
        for path in ("snapshot", "requests/1", "nothing"):
            answer = await web.get(f"{running.url}/_control/{path}", headers=shown)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert answer.json()["error"].startswith(said)
        assert (await web.post(f"{running.url}/_control/commands", json=ORDER, headers=shown)).status_code == 401
        assert running.snapshot().mode == "serving"


async def test_no_browser() -> None:
    """A page in a browser is refused whatever it shows."""
    async with steered(KEY) as (running, web):
        for origin in ("http://evil.example", running.url, "null"):
            answer = await web.post(
                f"{running.url}/_control/commands", json=ORDER, headers={**BEARER, "origin": origin}
            )
            assert (answer.status_code, "browser" in answer.json()["error"]) == (403, True)
        assert running.snapshot().mode == "serving"


async def test_off() -> None:
    """Without a key of its own the proxy lets nobody steer it, and says what would help."""
    async with steered(None) as (running, web):
        answer = await web.get(f"{running.url}/_control/snapshot", headers=BEARER)
        assert (answer.status_code, "HIVEMIND_CONTROL_TOKEN" in answer.json()["error"]) == (403, True)


async def test_agents_token_still_guards_the_rest() -> None:
    """The control token opens the control API alone; on everything else the agents' is asked for, as ever."""
    async with steered(KEY, AGENTS) as (running, web):
        assert (await web.get(f"{running.url}/_control/snapshot", headers=BEARER)).status_code == 200
        for path in ("/_stats", "/_controls", "/v1/models", "/to/lab/_health", "/to/lab/_control/snapshot"):
            assert (await web.get(running.url + path, headers=BEARER)).status_code == 401, path
        wrong = await web.post(f"{running.url}/agent/ann/_control/commands", content=PLAIN_BODY, headers=BEARER)
        assert wrong.status_code == 401
        assert (await web.get(f"{running.url}/_health")).status_code == 200
        assert (await web.get(f"{running.url}/_stats", headers={"x-hivemind-token": AGENTS})).status_code == 200


async def test_token_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Right or wrong, what was shown is in no log line, answer or snapshot."""
    caplog.set_level(logging.DEBUG)
    wrong = "WRONG-control-token-0123456789"
    async with steered(KEY) as (running, web):
        said = ""
        for shown in (BEARER, {"authorization": f"Bearer {wrong}"}):
            said += (await web.post(f"{running.url}/_control/commands", json=ORDER, headers=shown)).text
            said += (await web.get(f"{running.url}/_control/snapshot", headers=shown)).text
        said += repr(running.snapshot()) + repr(KEY)
        said += "".join(entry.getMessage() for entry in caplog.records if not entry.name.startswith("http"))
        assert [secret for secret in (TOKEN, wrong) if secret in said] == []
