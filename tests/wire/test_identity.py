"""Who is asking: by path, by header, by what clients send of themselves, by credential; and who may."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from proxy.kit import Running, Seen, between, client, raw, request
from proxy.wire import ANSWER, PLAIN_BODY

from hivemind.scheduler.types import Priority

MESSAGES = "/v1/messages"
SESSION = "0f3a9c1e-7a8b-4c2d-9e0f-112233445566"
SUB_AGENT = {"x-claude-code-session-id": SESSION, "x-claude-code-agent-id": "abcdef01234567890"}
USER_ID = json.dumps({"device_id": "d", "account_uuid": "", "session_id": SESSION})


async def ask(
    proxy: Running, path: str = MESSAGES, headers: dict[str, str] | None = None, body: bytes = PLAIN_BODY
) -> httpx.Response:
    """One request."""
    async with client() as web:
        return await web.post(proxy.url + path, content=body, headers=headers)


ASKERS: dict[str, tuple[str, bytes, dict[str, str], str]] = {
    "path": (f"/agent/alice{MESSAGES}", PLAIN_BODY, {"x-hivemind-agent": "alice"}, "alice"),
    "escaped path": (f"/agent/a%20b{MESSAGES}", PLAIN_BODY, {}, "a b"),
    "header": (MESSAGES, PLAIN_BODY, {"x-hivemind-agent": "bob", "x-claude-code-session-id": SESSION}, "bob"),
    "other header": (MESSAGES, PLAIN_BODY, {"x-hivemind-agent-id": "carol"}, "carol"),
    "claude code": (MESSAGES, PLAIN_BODY, {"x-claude-code-session-id": SESSION}, "claude-code-0f3a9c1e"),
    "claude code's sub-agent": (MESSAGES, PLAIN_BODY, SUB_AGENT, "claude-code-0f3a9c1e/abcdef01"),
    "claude code's body": (
        MESSAGES,
        json.dumps({"model": "m", "metadata": {"user_id": USER_ID}}).encode(),
        {"user-agent": "claude-cli/2.1"},
        "claude-code-0f3a9c1e",
    ),
    "codex": ("/v1/responses", PLAIN_BODY, {"originator": "codex_exec", "session-id": SESSION}, "codex-0f3a9c1e"),
    "opencode": (
        MESSAGES,
        PLAIN_BODY,
        {"user-agent": "opencode/1.18.33 ai-sdk/x", "x-session-affinity": "ses_4fQz81xyzw"},
        "opencode-4fQz81xy",
    ),
    "prompt cache key": (
        "/v1/responses",
        b'{"model":"m","prompt_cache_key":"thread-1"}',
        {"user-agent": "curl"},
        "session-thread-1",
    ),
    "vibe": ("/v1/chat/completions", PLAIN_BODY, {"x-affinity": SESSION}, "session-0f3a9c1e"),
    "no id": (MESSAGES, PLAIN_BODY, {}, "key-anonymous"),
    "an id with a slash": (MESSAGES, PLAIN_BODY, {"session-id": "a/b"}, "session-7ed0db82"),
    "an id with an escape": (MESSAGES, PLAIN_BODY, {"session-id": "%2fb"}, "session-7ffa5b29"),
    "an id that ends in its prefix": (MESSAGES, PLAIN_BODY, {"session-id": "ses_"}, "session-e0db27c8"),
}


@pytest.mark.parametrize(("path", "body", "headers", "agent"), ASKERS.values(), ids=list(ASKERS))
async def test_asker(path: str, body: bytes, headers: dict[str, str], agent: str) -> None:
    """The first of path, own header and the client's own ids that is there names the agent; it is known whether the
    name is its own."""
    async with between([ANSWER]) as (proxy, _):
        assert (await ask(proxy, path, headers, body)).status_code == 200
        known = proxy.proxy.engine.world.take(proxy.proxy.engine.now()).agent_states()
        assert [(each.name, each.made_up) for each in known] == [(agent, agent not in ("alice", "a b", "bob", "carol"))]


MEMBERS = {
    "header below the path": ("/agent/crew", {"x-hivemind-agent": "writer"}),
    "whole name below the path": ("/agent/crew", {"x-hivemind-agent": "Crew/writer"}),
    "path": ("/agent/crew%2Fwriter", {}),
    "header": ("", {"x-hivemind-agent": "crew/writer"}),
    "the path twice": ("/agent/crew%2Fwriter", {"x-hivemind-agent": "crew/writer"}),
}


@pytest.mark.parametrize(("prefix", "headers"), MEMBERS.values(), ids=MEMBERS)
async def test_a_name_with_a_slash_is_a_sub_agent_wherever_it_is_given(prefix: str, headers: dict[str, str]) -> None:
    """A crew in one process, whose members have a header each: they share its budget and its line in the tree."""
    async with between([ANSWER], [ANSWER]) as (proxy, _):
        assert (await ask(proxy, f"/agent/crew{MESSAGES}")).status_code == 200
        assert (await ask(proxy, prefix + MESSAGES, headers)).status_code == 200
        views = {view.name: view for view in proxy.proxy.snapshot().agents}
        assert {name: view.parent for name, view in views.items()} == {"crew": None, "crew/writer": "crew"}


async def test_parent_of_a_sub_agent() -> None:
    """A sub-agent is shown under the session that started it."""
    async with between([ANSWER]) as (proxy, _):
        await ask(proxy, MESSAGES, SUB_AGENT)
        (agent,) = proxy.snapshot().agents
        assert (agent.parent, agent.client) == ("claude-code-0f3a9c1e", "claude-code")


async def test_a_named_agent_has_its_sub_agents_within() -> None:
    """A name in the base URL is the process's; those that its client starts are told apart within it."""
    sub, deeper = "abcdef01234567890", "fedcba98765432100"
    session = {"x-claude-code-session-id": SESSION}
    async with between([ANSWER]) as (proxy, _):
        path = f"/agent/alice{MESSAGES}"
        await ask(proxy, path, session)
        await ask(proxy, path, {**session, "x-claude-code-agent-id": sub})
        await ask(proxy, path, {**session, "x-claude-code-agent-id": deeper, "x-claude-code-parent-agent-id": sub})
        lineage = [(view.name, view.parent) for view in proxy.snapshot().agents]
        assert lineage == [("alice", None), ("alice/abcdef01", "alice"), ("alice/fedcba98", "alice/abcdef01")]


async def test_sub_agents_of_codex() -> None:
    """Their ids begin with the time, which is the same for sub-agents that start together; they count as a part of the
    process that started them."""
    main, one, other = (f"01a20acb-{part}-7942-ab5f-167f821717{part[:2]}" for part in ("ae70", "bf01", "c0de"))
    codex = {"originator": "codex_exec", "session-id": main}
    async with between([ANSWER]) as (proxy, _):
        for path, name in (("/agent/bob/v1/responses", "bob"), ("/v1/responses", "codex-821717ae")):
            await ask(proxy, path, {**codex, "thread-id": main})
            for thread in (one, other):
                await ask(proxy, path, {**codex, "thread-id": thread, "x-codex-parent-thread-id": main})
            lineage = [(view.name, view.parent, view.requests) for view in proxy.snapshot().agents][-3:]
            assert lineage == [(name, None, 1), (f"{name}/821717bf", name, 1), (f"{name}/821717c0", name, 1)]


async def test_sub_agents_of_opencode() -> None:
    """Their ids begin with the time too, which is the same for those that start at once."""
    main, *subs = (f"ses_df533fae0ffe{end:>014}" for end in ("JIzUYi2iiYvFn", "aaaaaaaab", "aaaaaaaac"))
    opencode = {"user-agent": "opencode/1.18.33 ai-sdk/x"}
    async with between([ANSWER]) as (proxy, _):
        await ask(proxy, f"/agent/dave{MESSAGES}", {**opencode, "x-session-id": main})
        for sub in subs:
            headers = {**opencode, "x-session-id": sub, "x-parent-session-id": main}
            await ask(proxy, f"/agent/dave{MESSAGES}", headers)
        lineage = [(view.name, view.parent) for view in proxy.snapshot().agents]
        assert lineage == [("dave", None), ("dave/aaaaaaab", "dave"), ("dave/aaaaaaac", "dave")]


async def test_credential_is_the_last_resort() -> None:
    """Who names nothing is known by a fingerprint, the same one in whichever header the key comes."""
    key = "sk-ant-secret-0123456789"
    ways = [{"authorization": f"{scheme} {key}"} for scheme in ("bearer ", "Bearer")]
    ways += [{name: key} for name in ("x-api-key", "api-key", "x-goog-api-key")]
    async with between([ANSWER]) as (proxy, upstream):
        for headers in ways:
            await ask(proxy, MESSAGES, headers)
        await ask(proxy, f"{MESSAGES}?key={key}")
        await ask(proxy, MESSAGES, {"x-api-key": "another"})
        for signature in "ab":  # AWS's differ from request to request
            scope = "AWS4-HMAC-SHA256 Credential=AKIA0/20261130/us-east-1/bedrock/aws4_request, SignedHeaders=host"
            await ask(proxy, MESSAGES, {"authorization": f"{scope}, Signature={signature}"})
        await ask(proxy)
        world = proxy.snapshot()
        assert [agent.requests for agent in world.agents] == [6, 1, 2, 1]
        assert world.agents[-1].name == "key-anonymous"
        # Nobody knows which of them a server of no known kind reads, so its limits hold for all together.
        assert [lane.state.lane for lane in world.lanes] == ["lab:all"]
        assert [Seen.of(r).values(b"authorization") for r in upstream.requests[1:2]] == [[f"Bearer {key}".encode()]]


@pytest.mark.parametrize(("word", "priority"), [("critical", 0), ("HIGH", 1), (" low ", 3), ("2", 2), ("0", 0)])
async def test_priority_of_a_request(word: str, priority: int) -> None:
    """`x-hivemind-priority` sets the priority of the request, by name or number."""
    gate = asyncio.Event()
    settings = {"agents": {"highest_priority": "critical"}}
    async with between([gate, ANSWER], **settings) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, PLAIN_BODY, f"x-hivemind-priority: {word}"))
        world = await proxy.until(lambda world: len(world.slots) == 1)
        assert world.slots[0].priority is Priority(priority)
        gate.set()


@pytest.mark.parametrize(
    ("path", "headers", "text"),
    [
        (MESSAGES, {"x-hivemind-priority": "urgent"}, "critical, high, normal or low"),
        (f"/agent/{'x' * 81}{MESSAGES}", {}, "at most 80 characters"),
        (f"/agent/a%0Ab{MESSAGES}", {}, "printable"),
        (MESSAGES, {"x-hivemind-agent": "sk-ant-api03-0123456789abcdef"}, "looks like a key"),
    ],
)
async def test_bad_identity(path: str, headers: dict[str, str], text: str) -> None:
    """A name or priority that can't be used is a 400 that says what would be right, and nothing goes upstream."""
    async with between([ANSWER]) as (proxy, upstream):
        answer = await ask(proxy, path, headers)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (400, "false")
        assert text in answer.json()["error"]["message"]
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert not upstream.requests


async def test_number_of_agents() -> None:
    """Beyond the limit a new agent is turned away for a while; those that are there go on."""
    async with between([ANSWER], max_agents=2) as (proxy, upstream):
        statuses = [(await ask(proxy, f"/agent/{name}{MESSAGES}")).status_code for name in ("a", "b", "a", "b")]
        assert statuses == [200] * 4
        answer = await ask(proxy, f"/agent/c{MESSAGES}")
        assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "true")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert "max_agents" in answer.json()["error"]["message"]
        assert len(upstream.requests) == 4


TOKEN = "tok-9f8e7d6c"


async def test_token() -> None:
    """With a token set, whoever shows it in its header or in the base URL gets in; nobody else gets an answer."""
    async with between([ANSWER], token=TOKEN) as (proxy, upstream):
        for path, headers in (
            (MESSAGES, {"x-hivemind-token": TOKEN}),
            (f"/token/{TOKEN}{MESSAGES}", {}),
            (f"/token/{TOKEN}/agent/alice{MESSAGES}", {}),
            (f"/agent/alice/token/{TOKEN}{MESSAGES}", {}),
        ):
            assert (await ask(proxy, path, headers)).status_code == 200
        assert {Seen.of(r).target for r in upstream.requests} == {MESSAGES.encode()}
        assert all(TOKEN.encode() not in r for r in upstream.requests)
        for path, headers in (
            (MESSAGES, {}),
            (MESSAGES, {"x-hivemind-token": TOKEN + "x"}),
            ("/token/wrong" + MESSAGES, {}),
            ("/_stats", {}),
            ("/api/hello", {}),
        ):
            answer = await ask(proxy, path, headers)
            assert (answer.status_code, answer.headers["x-should-retry"]) == (401, "false")
            assert TOKEN not in answer.text
        assert len(upstream.requests) == 4
        async with client() as web:
            assert (await web.get(f"{proxy.url}/_health")).status_code == 200
