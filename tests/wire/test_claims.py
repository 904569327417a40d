"""What requests claim to be: one agent under every spelling, names bound to tokens, how urgent one may call itself."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from proxy.kit import Running, Seen, between, client, raw
from proxy.wire import ANSWER, PLAIN_BODY

from hivemind.agent_names import KnownNames
from hivemind.scheduler.commands import PauseAgent, Rejected, SetBudget, SetPriority, StopAgent
from hivemind.scheduler.types import Priority
from hivemind.settings.checks import checked_as
from hivemind.settings.sections import AgentSettings
from hivemind.wire.identity import Claims
from hivemind.wire.request_head import RequestRefused

MESSAGES = "/v1/messages"
SESSION = "0f3a9c1e-7a8b-4c2d-9e0f-112233445566"
ALICES, BOBS = "token-of-alice-1", "token-of-bob-2"
CREDENTIALS = {"credentials": {"Alice": ALICES, "bob": BOBS}}


async def ask(proxy: Running, path: str = MESSAGES, headers: dict[str, str] | None = None) -> httpx.Response:
    """One request."""
    async with client() as web:
        return await web.post(proxy.url + path, content=PLAIN_BODY, headers=headers)


def error(answer: httpx.Response) -> str:
    """What an answer of Anthropic's form says is wrong."""
    text: str = answer.json()["error"]["message"]
    return text


def agents(proxy: Running) -> list[str]:
    return [view.name for view in proxy.snapshot().agents]


SPELLINGS: dict[str, tuple[str, dict[str, str]]] = {
    "as it is": ("/agent/alice", {}),
    "capital": ("/agent/Alice", {}),
    "all capitals": ("/agent/ALICE", {}),
    "space behind": ("/agent/alice%20", {}),
    "space before": ("/agent/%20alice", {}),
    "no-break space": ("/agent/alice%C2%A0", {}),
    "percent-encoded letter": ("/agent/%61lice", {}),
    "full width": (f"/agent/{quote('ａｌｉｃｅ')}", {}),
    "mathematical letters": (f"/agent/{quote('𝐚𝐥𝐢𝐜𝐞')}", {}),
    "header": ("", {"x-hivemind-agent": "Alice"}),
    "header, percent-encoded": ("", {"x-hivemind-agent": "alice%20"}),
    "other header": ("", {"x-hivemind-agent-id": "aLICE"}),
    "with a session": ("/agent/Alice", {"x-claude-code-session-id": SESSION}),
}


@pytest.mark.parametrize(("prefix", "headers"), SPELLINGS.values(), ids=list(SPELLINGS))
async def test_an_exhausted_agent_is_refused_under_every_spelling(prefix: str, headers: dict[str, str]) -> None:
    """Its budget is the agent's, however it writes its name."""
    async with between([ANSWER]) as (proxy, upstream):
        proxy.proxy.apply(SetBudget("alice", 5))
        assert (await ask(proxy, f"/agent/alice{MESSAGES}")).status_code == 200
        answer = await ask(proxy, prefix + MESSAGES, headers)
        expected = 402 if "x-claude-code-session-id" in headers else 400
        assert (answer.status_code, answer.headers["x-should-retry"]) == (expected, "false")
        assert agents(proxy) == ["alice"]
        assert len(upstream.requests) == 1


async def test_a_sub_agent_of_another_spelling_is_part_of_the_same_process() -> None:
    """What it uses is charged to the one agent."""
    headers = {"x-claude-code-session-id": SESSION, "x-claude-code-agent-id": "abcdef01"}
    async with between([ANSWER]) as (proxy, _):
        proxy.proxy.apply(SetBudget("alice", 5))
        assert (await ask(proxy, f"/agent/ALICE{MESSAGES}", headers)).status_code == 200
        assert (await ask(proxy, f"/agent/aLiCe{MESSAGES}")).status_code == 400
        assert (await ask(proxy, f"/agent/alice{MESSAGES}", headers)).status_code == 402
        assert agents(proxy) == ["alice", "alice/abcdef01"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("\u0430lice", "Cyrillic and Latin"),
        ("al\u0131ce", "looks like that of the agent alice"),
        ("ali\u200bce", "U+200B"),
        ("alice\u202e", "U+202E"),
        ("alice\ufe0f", "U+FE0F"),
        ("alice%20", "percent-encoded"),
        ("alice\n", "U+000A"),
        ("x" * 9000, "at most 80 characters"),
    ],
)
async def test_look_alikes_and_hidden_characters_are_refused(name: str, text: str) -> None:
    """A 400 says why, in the path and in a header, and nothing goes upstream."""
    async with between([ANSWER]) as (proxy, upstream):
        proxy.proxy.apply(SetBudget("alice", 5))
        encoded = quote(name, safe="")
        for answer in (
            await ask(proxy, f"/agent/{encoded}{MESSAGES}"),
            await ask(proxy, MESSAGES, {"x-hivemind-agent": encoded}),
        ):
            assert (answer.status_code, answer.headers["x-should-retry"]) == (400, "false")
            assert answer.json()["error"]["type"] == "invalid_request_error"
            assert text in error(answer)
        assert not upstream.requests


@pytest.mark.parametrize("name", ["北京", "エージェント", "агент", "\u0648\u0643\u064a\u0644", "🚀", "J\u00fcrgen"])
async def test_names_of_other_scripts(name: str) -> None:
    """Percent-encoded or as bare UTF-8, in the path and in a header, they are one agent."""
    body = b"content-length: %d\r\n\r\n" % len(PLAIN_BODY) + PLAIN_BODY
    async with between([ANSWER]) as (proxy, _):
        assert (await ask(proxy, f"/agent/{quote(name)}{MESSAGES}")).status_code == 200
        assert (await ask(proxy, MESSAGES, {"x-hivemind-agent": quote(name)})).status_code == 200
        async with raw(proxy.port) as bare:
            await bare.send(f"POST {MESSAGES} HTTP/1.1\r\nhost: x\r\nx-hivemind-agent: {name}\r\n".encode() + body)
            status, headers = await bare.head()
            await bare.body(headers)
        assert status == 200
        assert agents(proxy) == [name]


async def test_bytes_that_arent_utf_8() -> None:
    """They are no name."""
    async with between([ANSWER]) as (proxy, upstream):
        answer = await ask(proxy, f"/agent/ali%FFce{MESSAGES}")
        assert (answer.status_code, "UTF-8" in error(answer)) == (400, True)
        assert not upstream.requests


async def test_the_first_spelling_is_shown_and_all_can_be_steered() -> None:
    """By commands, budgets asked for and places of runs."""
    async with between([ANSWER]) as (proxy, _):
        assert (await ask(proxy, f"/agent/Alice{MESSAGES}")).status_code == 200
        assert (await ask(proxy, f"/agent/alice{MESSAGES}")).status_code == 200
        assert agents(proxy) == ["Alice"]
        proxy.proxy.apply(SetPriority("ALICE", Priority.LOW))
        proxy.proxy.apply(SetBudget("alice", 1_000))
        proxy.proxy.apply(PauseAgent("aLICE", True))
        (view,) = proxy.snapshot().agents
        assert (view.priority, view.budget is not None) == (Priority.LOW, True)
        (told,) = proxy.proxy.budgets("alice").agents
        assert told.agent == "Alice"
        with pytest.raises(Rejected, match="looks like that of the agent Alice"):
            proxy.proxy.apply(SetBudget("al\u0131ce", 5))
        with pytest.raises(Rejected, match="no agent named"):
            proxy.proxy.apply(StopAgent("\u0430lice", True))


async def test_a_session_can_be_claimed_in_its_own_spelling_only() -> None:
    """A name that was made of a client's ids is the same agent's as that name claimed."""
    async with between([ANSWER]) as (proxy, _):
        headers = {"user-agent": "opencode/1", "x-session-affinity": "ses_4fQz81xyzw"}
        assert (await ask(proxy, MESSAGES, headers)).status_code == 200
        assert (await ask(proxy, f"/agent/OPENCODE-4fqz81xy{MESSAGES}")).status_code == 200
        assert agents(proxy) == ["opencode-4fQz81xy"]


# --- Names that are required, and names that are bound ---------------------------------------------------------------


async def test_a_name_can_be_required() -> None:
    """What a client says of its session is no name of its own; the refusal says how to give one."""
    async with between([ANSWER], agents={"require_name": True}) as (proxy, upstream):
        for headers in ({}, {"x-api-key": "sk-ant-1"}, {"x-claude-code-session-id": SESSION}):
            answer = await ask(proxy, MESSAGES, headers)
            assert (answer.status_code, answer.headers["x-should-retry"]) == (400, "false")
            assert answer.headers["x-hivemind-refusal"] == "name_required"
            assert "/agent/NAME" in error(answer)
            assert "x-hivemind-agent" in error(answer)
        assert not upstream.requests
        assert (await ask(proxy, f"/agent/alice{MESSAGES}")).status_code == 200
        assert (await ask(proxy, MESSAGES, {"x-hivemind-agent": "bob"})).status_code == 200
        assert agents(proxy) == ["alice", "bob"]


PROOFS: dict[str, tuple[str, dict[str, str]]] = {
    "header": ("/agent/alice", {"x-hivemind-token": ALICES}),
    "header, other spelling": ("/agent/ALICE", {"x-hivemind-token": ALICES}),
    "path": (f"/token/{ALICES}/agent/alice", {}),
    "path, the other way round": (f"/agent/alice/token/{ALICES}", {}),
    "both in headers": ("", {"x-hivemind-agent": "alice", "x-hivemind-token": ALICES}),
    "token alone": ("", {"x-hivemind-token": ALICES}),
    "token alone, in the path": (f"/token/{ALICES}", {}),
    "with a session": (f"/token/{ALICES}", {"x-claude-code-session-id": SESSION}),
}


@pytest.mark.parametrize(("prefix", "headers"), PROOFS.values(), ids=list(PROOFS))
async def test_whoever_shows_a_token_is_that_agent(prefix: str, headers: dict[str, str]) -> None:
    """In the places where the proxy's own token is shown; the token stays here."""
    async with between([ANSWER], agents={**CREDENTIALS, "require_name": True}) as (proxy, upstream):
        assert (await ask(proxy, prefix + MESSAGES, headers)).status_code == 200
        assert agents(proxy) == ["Alice"]
        assert Seen.of(upstream.requests[0]).target == MESSAGES.encode()
        assert ALICES.encode() not in upstream.requests[0]
        detail = proxy.proxy.detail(1)
        assert detail is not None
        assert ALICES not in str(detail)


FALSE: dict[str, tuple[str, dict[str, str], int, str]] = {
    "no token": ("/agent/alice", {}, 401, "bound to a token"),
    "other spelling": ("/agent/ALICE", {}, 401, "bound to a token"),
    "header": ("", {"x-hivemind-agent": "alice"}, 401, "bound to a token"),
    "part of it": ("/agent/alice%2Fsub", {}, 401, "bound to a token"),
    "wrong token": ("/agent/alice", {"x-hivemind-token": ALICES + "x"}, 401, "bound to a token"),
    "another's token": ("/agent/alice", {"x-hivemind-token": BOBS}, 400, "token that was shown is bob's"),
    "for a free name": ("/agent/carol", {"x-hivemind-token": BOBS}, 400, "token that was shown is bob's"),
    "for a name that begins alike": ("/agent/bobby", {"x-hivemind-token": BOBS}, 400, "token that was shown is bob's"),
}


@pytest.mark.parametrize(("prefix", "headers", "status", "text"), FALSE.values(), ids=list(FALSE))
async def test_a_bound_name_needs_its_token(prefix: str, headers: dict[str, str], status: int, text: str) -> None:
    """Nobody else goes by it, and nobody with a token goes by another name."""
    async with between([ANSWER], agents=CREDENTIALS) as (proxy, upstream):
        answer = await ask(proxy, prefix + MESSAGES, headers)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (status, "false")
        assert text in error(answer)
        assert ALICES not in answer.text
        assert BOBS not in answer.text
        assert not upstream.requests


async def test_with_a_token_of_the_proxy_an_agents_own_opens_it_too() -> None:
    """Who has only that can go by no other name, so names bind where the proxy's token isn't handed out."""
    async with between([ANSWER], token="tok-9f8e7d6c", agents=CREDENTIALS) as (proxy, _):
        for prefix, headers, status in (
            ("", {}, 401),
            ("/agent/carol", {}, 401),
            ("/agent/carol", {"x-hivemind-token": "tok-9f8e7d6c"}, 200),
            ("/agent/alice", {"x-hivemind-token": "tok-9f8e7d6c"}, 401),
            ("/agent/alice", {"x-hivemind-token": ALICES}, 200),
            ("/agent/carol", {"x-hivemind-token": ALICES}, 400),
            ("/token/tok-9f8e7d6c/agent/alice", {"x-hivemind-token": ALICES}, 200),
        ):
            assert (await ask(proxy, prefix + MESSAGES, headers)).status_code == status, (prefix, headers)


async def test_names_that_nobody_bound_are_free() -> None:
    """Also beside such as are bound; a token that is nobody's means nothing to them."""
    async with between([ANSWER], agents=CREDENTIALS) as (proxy, _):
        assert (await ask(proxy, f"/agent/carol{MESSAGES}")).status_code == 200
        assert (await ask(proxy, f"/agent/carol{MESSAGES}", {"x-hivemind-token": "old"})).status_code == 200
        assert agents(proxy) == ["carol"]


# --- Priority --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "word", "priority"),
    [
        ({}, "critical", Priority.HIGH),
        ({}, "0", Priority.HIGH),
        ({}, "high", Priority.HIGH),
        ({}, "low", Priority.LOW),
        ({"highest_priority": "critical"}, "critical", Priority.CRITICAL),
        ({"highest_priority": "normal"}, "high", Priority.NORMAL),
        ({"highest_priority": "low"}, "normal", Priority.LOW),
    ],
)
async def test_how_urgent_an_agent_may_call_itself(
    settings: dict[str, Any], word: str, priority: Priority, caplog: pytest.LogCaptureFixture
) -> None:
    """It isn't refused; what counts is told once an agent."""
    caplog.set_level(logging.WARNING, "hivemind.wire.identity")
    asked = Priority[word.upper()] if word.isalpha() else Priority(int(word))
    async with between([ANSWER], agents=settings) as (proxy, _):
        for _ in range(2):
            answer = await ask(proxy, f"/agent/alice{MESSAGES}", {"x-hivemind-priority": word})
            assert answer.status_code == 200
        detail = proxy.proxy.detail(1)
        assert detail is not None
        assert detail.view.priority is priority
    assert len(caplog.records) == (asked != priority)


async def test_what_is_not_heeded_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A part that asks for more than its agent, and a header that looks like ours and isn't, are told once."""
    caplog.set_level(logging.WARNING, "hivemind")
    said = {"x-hivemind-priority": "high", "x-hivemind-agent": "writer", "x-hivemind-prio": "low"}
    async with between([ANSWER]) as (proxy, _):
        for number in range(2):
            assert (await ask(proxy, f"/agent/crew{MESSAGES}", {**said, "x-other": str(number)})).status_code == 200
    asked, unknown = sorted(record.getMessage() for record in caplog.records)
    assert asked == "a request has the header x-hivemind-prio, which isn't one of HiveMind's"
    assert unknown.startswith("crew/writer asks for priority high; its requests count as normal by a decision")


async def test_the_operator_may_do_what_an_agent_may_not() -> None:
    """Its priority isn't bound by the setting."""
    async with between([ANSWER], agents={"highest_priority": "low"}) as (proxy, _):
        assert (await ask(proxy, f"/agent/alice{MESSAGES}")).status_code == 200
        proxy.proxy.apply(SetPriority("alice", Priority.CRITICAL))
        assert (await ask(proxy, f"/agent/alice{MESSAGES}")).status_code == 200
        detail = proxy.proxy.detail(2)
        assert detail is not None
        assert detail.view.priority is Priority.CRITICAL


# --- Tokens of runs ---------------------------------------------------------------------------------------------------


def claims_of(token: bytes | None = b"tok-9f8e7d6c") -> Claims:
    return Claims(KnownNames(), checked_as(AgentSettings, CREDENTIALS), token)


def test_a_run_has_a_token_of_its_own() -> None:
    """It says whose it is, binds the name while the run lives, and is good for the next proxy with the same token."""
    claims, later, other = claims_of(), claims_of(), claims_of(b"another")
    claims.check("Carol", None)
    token = claims.token_of_run("Carol").encode()
    assert (claims.agent_of(token), later.agent_of(token), other.agent_of(token)) == ("Carol", "Carol", None)
    assert token.isascii()
    claims.check("carol", claims.agent_of(token))
    claims.check("carol/sub", "Carol")
    for name, proven in (("carol", None), ("carol/sub", None), ("dave", "Carol"), ("carols/sub", "Carol")):
        with pytest.raises(RequestRefused):
            claims.check(name, proven)
    claims.run_ended("CAROL")
    claims.check("carol", None)


def test_what_is_no_runs_token() -> None:
    """Forged, changed, or of a name that the settings bind to a token of their own."""
    claims = claims_of()
    token = claims.token_of_run("carol").encode()
    name, mac = token.split(b".")[1:]
    alice = Claims(KnownNames(), AgentSettings(), b"tok-9f8e7d6c").token_of_run("alice").encode()
    for false in (
        b"run.",
        b"run.." + mac,
        b"run." + name,
        b"run." + name + b"." + mac[:-1] + b"x",
        b"run.\xff\xfe." + mac,
        b"run.A." + mac,
        b"run." + name + b"==." + mac,
        token + b"x",
        alice,
    ):
        assert claims.agent_of(false) is None, false


def test_names_that_the_settings_bind_keep_their_token() -> None:
    """A run under such a name gets that; the end of the run frees nothing."""
    claims = claims_of()
    assert claims.token_of_run("ALICE") == ALICES
    claims.run_ended("alice")
    with pytest.raises(RequestRefused, match="bound to a token"):
        claims.check("alice", None)
    assert claims_of(None).token_of_run("carol") == ""
