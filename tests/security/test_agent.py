"""What an agent may do, with the token that it has and with any other; every endpoint is taken from the table."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator

import httpx
import pytest
from proxy.kit import Running, between, client, raw, request
from proxy.test_client_retries import AGAIN, TARGET, busy, queued
from proxy.wire import ANSWER, PLAIN_BODY, http
from security.kit import AGENTS, ALICES, CONTROL, endpoints, openers

from hivemind.store.token_file import ControlKey

USAGE = {"input_tokens": 3, "output_tokens": 4}


@contextlib.asynccontextmanager
async def guarded(**settings: object) -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    """A proxy that wants tokens of agents and of the operator."""
    settings = {"token": AGENTS, "agents": {"credentials": {"alice": ALICES}}, **settings}
    answer: dict[str, object] = {"content": [{"type": "text", "text": "the answer to alice"}], "usage": USAGE}
    async with between([http(200, answer)], **settings) as (running, _), client() as web:
        running.proxy.control_key = ControlKey("run-1", CONTROL)
        yield running, web


async def test_no_endpoint_opens_to_an_agents_token() -> None:
    """Not to the agents' token, to one of its own or to a run's, wherever it is shown."""
    async with guarded() as (running, web):
        runs = running.proxy.app._claims.token_of_run("carol")
        tokens = ("", AGENTS, ALICES, runs, CONTROL + "x", CONTROL[:-1], f'"{CONTROL}"')
        shown = [opener for token in tokens for opener in openers(token)]
        for (method, path), (prefix, headers) in itertools.product(endpoints(), shown):
            answer = await web.request(method, f"{running.url}{prefix}{path}", headers=headers, content=b"{}")
            # Behind a prefix it isn't the control API's path at all, but the upstream's.
            refused = answer.status_code == 401 if not prefix else "run-1" not in answer.text
            assert refused, (path, prefix, headers, answer.text)
        assert running.snapshot().mode == "serving"


async def test_no_tool_opens_to_an_agents_token() -> None:
    """MCP wants the control token too, also under the agent's own name."""
    async with guarded() as (running, web):
        runs = running.proxy.app._claims.token_of_run("carol")
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        for shown in ("", AGENTS, ALICES, runs):
            for path in ("/mcp", "/mcp/", "/agent/alice/mcp"):
                for _, headers in openers(shown):
                    answer = await web.post(running.url + path, headers=headers, json=call)
                    assert (answer.status_code, "hm" in answer.text) == (401, False)


async def test_it_reads_figures_with_its_token() -> None:
    """`/_stats` and `/metrics` open to the agents' token and to an agent's own, and to nobody without one."""
    async with guarded() as (running, web):
        for path in ("/_stats", "/metrics"):
            for token in (AGENTS, ALICES):
                answer = await web.get(running.url + path, headers={"x-hivemind-token": token})
                assert answer.status_code == 200
            assert (await web.get(running.url + path)).status_code == 401


async def test_figures_hold_no_conversation() -> None:
    """What agents asked and were answered stands in no figure, so one can't read another's there."""
    asked, said = "the question of alice", "the answer to alice"
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"' + asked.encode() + b'"}]}'
    async with guarded() as (running, web):
        headers = {"x-hivemind-token": ALICES, "x-api-key": "key-of-alice-0123456789"}
        answer = await web.post(f"{running.url}/v1/messages", content=body, headers=headers)
        assert said in answer.text
        for path in ("/_stats", "/metrics"):
            text = (await web.get(running.url + path, headers={"x-hivemind-token": AGENTS})).text
            assert "alice" in text
            assert [each for each in (asked, said, "key-of-alice") if each in text] == []


@pytest.mark.parametrize(
    "header", ["x-gateway-token: another", "cookie: session=another", "helicone-auth: Bearer another", "x-secret: s"]
)
async def test_it_gets_no_answer_of_another(header: str) -> None:
    """A request that is another's in all but a credential, whichever header that is in, isn't its retry."""
    name = header.partition(":")[0]
    async with busy([ANSWER]) as (proxy, _, _), raw(proxy.port) as one, raw(proxy.port) as two, raw(proxy.port) as ours:
        await queued(proxy, one, PLAIN_BODY, f"{name}: the one who pays", depth=1)
        await ours.send(request(TARGET, PLAIN_BODY, AGAIN, header))
        await two.send(request(TARGET, PLAIN_BODY, AGAIN))
        await proxy.until(lambda world: world.totals.requests == 4)


async def test_it_raises_no_budget_of_its_own() -> None:
    """No header, name or path of a request lifts a budget that is used up; only a command does."""
    async with guarded(budget={"tokens": 1}) as (running, web):
        headers = {"x-hivemind-token": ALICES}
        target = f"{running.url}/v1/messages"
        assert (await web.post(target, content=PLAIN_BODY, headers=headers)).status_code == 200
        for more in (
            {},
            {"x-hivemind-priority": "critical"},
            {"x-hivemind-budget": "none"},
            {"x-claude-code-agent-id": "b"},
        ):
            assert (await web.post(target, content=PLAIN_BODY, headers={**headers, **more})).status_code == 400
        order = {"name": "SetBudget", "arguments": {"agent": "alice", "tokens": None}, "who": "alice"}
        for shown in (ALICES, AGENTS):
            for prefix, opened in openers(shown):
                await web.post(f"{running.url}{prefix}/_control/commands", json=order, headers=opened)
        assert (await web.post(target, content=PLAIN_BODY, headers=headers)).status_code == 400


async def test_the_pool_holds_for_every_name() -> None:
    """An agent that calls itself something else every time still uses up the budget of all."""
    async with between([ANSWER], budget={"pool_tokens": 1}) as (running, _), client() as web:
        answers = [
            (await web.post(f"{running.url}/agent/{name}/v1/messages", content=PLAIN_BODY)).status_code
            for name in ("ann", "bob", "carol")
        ]
        assert answers == [200, 400, 400]


async def test_a_free_name_is_anybodys() -> None:
    """Without tokens a name is only claimed: a new name brings a budget of its own."""
    async with between([ANSWER], budget={"tokens": 1}) as (running, _), client() as web:
        for name, status in (("ann", 200), ("ann", 400), ("bob", 200)):
            answer = await web.post(f"{running.url}/agent/{name}/v1/messages", content=PLAIN_BODY)
            assert answer.status_code == status
