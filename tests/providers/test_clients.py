"""Clients by their headers."""

from __future__ import annotations

import pytest

from hivemind.providers.clients import Client, client_of, session_in
from hivemind.scheduler.types import Priority


def client(**headers: str) -> Client:
    return client_of([(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()])


AGENTS = [
    ("claude-cli/2.1.197 (external, sdk-cli)", "claude-code", 290.0, 13, 60),
    ("claude-cli/0.24.4 (external, cli)", "qwen-code", 290.0, 44, 59),
    ("QwenCode/0.24.4 (linux; x64)", "qwen-code", 290.0, 44, 59),
    ("codex_exec/0.169.0 (Debian; x86_64)", "codex", None, 26, 120),
    ("opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14", "opencode", 290.0, 26, 120),
    ("kilo/latest/7.7.7/cli ai-sdk/provider-utils/4.0.27 runtime/bun/1.3.14", "kilo", 290.0, 26, 120),
    ("kimi-code-cli/2.1.0", "kimi-code", 290.0, 15, 120),
    ("factory-cli/0.225.2", "droid", 290.0, 1, 1),
    ("GeminiCLI-tui/0.61.0/gemini-2.5-flash (linux; x64; terminal)", "gemini-cli", 50.0, 15, 240),
    ("pi/1.6.0 (linux; node/v24.22.3; x64)", "pi", 290.0, 1, 1),
    ("litellm/1.83.0", "litellm", 5990.0, 59, 59),
    ("langchain-anthropic/1.7.7", "langchain", 590.0, 65, 240),
    ("langchain-mistralai/1.0", "langchain", 590.0, 59, 59),
    ("pydantic-ai/2.68.0", "pydantic-ai", 590.0, 65, 120),
    ("agent-framework-python/1.23.0", "agent-framework", 590.0, 65, 120),
    ("semantic-kernel-python/1.45.0", "semantic-kernel", 590.0, 65, 120),
    ("Agents/Python 0.24.0", "openai-agents", 590.0, 59, 59),
    ("ai-sdk/anthropic/3.0.138 runtime/node.js/22", "vercel-ai", 290.0, 59, 59),
    ("ai-sdk-anthropic/4.0.105 ai-sdk-provider-utils/5.0.81 node.js/24", "vercel-ai", 290.0, 59, 59),
    *[(f"{kind}Anthropic/Python 2.11.0", "anthropic-sdk", 590.0, 65, 240) for kind in ("", "Async")],
    ("AsyncAnthropic/Python 0.125.0", "anthropic-sdk", 590.0, 60, 60),
    ("Anthropic/JS 1.11.0", "anthropic-sdk", 290.0, 65, 240),
    ("Anthropic/JS 0.36.3", "anthropic-sdk", 290.0, 59, 59),
    *[(f"{kind}OpenAI/Python 3.52.0", "openai-sdk", 590.0, 65, 120) for kind in ("", "AsyncAzure")],
    ("OpenAI/JS 7.55.0", "openai-sdk", 290.0, 59, 59),
    ("google-genai-sdk/3.4.0 gl-python/3.11", "google-sdk", None, 59, 59),
    ("google-genai-sdk/2.32.0 gl-node/v22", "google-sdk", 290.0, 59, 59),
    ("ollama-python/0.6.3 (x86_64 linux) Python/3.11", "ollama-sdk", None, 59, 59),
    ("ollama-js/0.6.4 (x64 linux Node.js/v22)", "ollama-sdk", 290.0, 59, 59),
    ("grok-shell/0.2.111 (linux; x86_64)", "grok-build", None, 120, 120),
    ("AI21 studio SDK 4.3.0 Python 3.11.7 Operating System Linux", "", 290.0, 59, 59),
    ("replicate-python/1.0.7", "", 25.0, 59, 59),
    ("lm15/stdlib", "", 590.0, 44, 120),
    ("DSPy/3.4.1", "litellm", 5990.0, 59, 59),
    ("node", "", 290.0, 59, 59),
    *[(other, "", None, 59, 59) for other in ("curl/8.0", "Bun/1.4.0")],
]


def test_an_sdk_that_is_known_by_its_generator() -> None:
    """An error event ends it, so none is begun a stream before its patience needs it."""
    groq = client(user_agent="Groq/Python 1.7.0", x_stainless_lang="python", x_stainless_read_timeout="60")
    assert (groq.silent_s, client(user_agent="Groq/Python 1.7.0").silent_s) == (50.0, 0.0)
    assert client(user_agent="python-httpx/0.28.1", zai_sdk_ver="0.2.3").silent_s == 290.0
    for user_agent in ("node", "Agents/JavaScript 0.20.0", "langchainjs-openai/1.0.0", "Groq/JS 1.1.2"):
        assert client(user_agent=user_agent, x_stainless_lang="js").silent_s == 290.0


@pytest.mark.parametrize(("user_agent", "name", "patience_s", "least_s", "longest_s"), AGENTS)
def test_programs(user_agent: str, name: str, patience_s: float | None, least_s: int, longest_s: int) -> None:
    """Each program is known by its User-Agent, with how long it waits, and the delays that it is told."""
    found = client(user_agent=user_agent)
    assert (found.name, found.patience_s) == (name, patience_s)
    assert (found.try_again.delay_s(None), found.try_again.delay_s(299.5)) == (least_s, longest_s)


@pytest.mark.parametrize(
    ("user_agent", "obeys"),
    [
        ("claude-cli/2.1.332 (external, sdk-cli)", True),
        ("Anthropic/JS 1.11.0", True),
        ("langchain-anthropic/1.7.10", True),
        ("codex_exec/0.171.0", False),
        ("QwenCode/0.24.4 (linux; x64)", False),
        ("litellm/1.83.0", False),
    ],
)
def test_who_obeys_the_hint(user_agent: str, obeys: bool) -> None:
    """As measured after statuses at which each asks again; the others get a 400 in place of a final refusal."""
    assert client(user_agent=user_agent).try_again.obeys_hint is obeys


def test_vibe() -> None:
    """Vibe is Mistral's SDK with a session; an error event ends it."""
    found = client(user_agent="mistral-client-python/2.6.0", x_affinity="680a29c1-734b-e114-87db-db6dc1a5ddc4")
    assert (found.name, found.session[:8], found.silent_s) == ("vibe", "680a29c1", 700.0)


def test_copilot() -> None:
    """Copilot's command line has the User-Agent of an SDK, and headers of its own."""
    assert (
        client(user_agent="OpenAI/JS 5", x_interaction_type="conversation-user", x_initiator="user").name == "copilot"
    )


@pytest.mark.parametrize(("asked_s", "told"), [(None, 13), (0.0, 13), (-5.0, 13), (20.2, 21), (60.0, 60), (61.0, 60)])
def test_delays_are_in_bounds(asked_s: float | None, told: int) -> None:
    """A delay is as long as was asked for, but no longer than is obeyed, and no shorter than makes ten tries last."""
    claude = client(user_agent="claude-cli/2.1.332 (external, sdk-cli)").try_again
    assert claude.delay_s(asked_s) == told
    assert claude.delay_s(float("inf")) == 60
    assert claude.delay_s(float("nan")) == 13


@pytest.mark.parametrize("user_agent", [each[0] for each in AGENTS])
def test_every_client_s_tries_last(user_agent: str) -> None:
    """Whoever asks again by itself does for two minutes, with its own waits or with ours."""
    form = client(user_agent=user_agent).try_again
    if form.retries and form.seen:
        assert form.retries * min(form.delay_s(None), form.longest_s) + (form.retries + 1) * form.hold_s >= 118


def test_a_session_that_only_the_body_names() -> None:
    """Copilot's folder of the session is in its system prompt, in JSON also on Windows, and Kimi Code's session is the
    key of its cache, Droid's whom OpenAI is to hold responsible; no other client's is looked for."""
    copilot = client(x_interaction_type="conversation-user", x_initiator="user", user_agent="OpenAI/JS 5.20.1")
    session = "4631ff0f-2b58-4631-882d-8077df6c10d5"
    for folder in (f"/home/ann/.copilot/session-state/{session}", rf"C:\\\\ann\\\\session-state\\\\{session}"):
        body = rf'{{"messages":[{{"role":"system","content":"<x>\nSession folder: {folder}\n"}}]}}'.encode()
        assert session_in(copilot, body) == session
        assert session_in(client(user_agent="pi/1.6.0"), body) == ""
    kimi = f'{{"model":"kimi-k3","prompt_cache_key":"session_{session}","stream":true}}'.encode()
    assert session_in(client(user_agent="kimi-code-cli/2.1.0"), kimi) == session
    assert session_in(copilot, kimi) == ""
    droid = f'{{"model":"gpt-5.4","safety_identifier":"{session}"}}'.encode()
    assert session_in(client(user_agent="factory-cli/0.225.2"), droid) == session
    assert session_in(copilot, b"{}") == session_in(copilot, b"Session folder: /x") == ""


def test_nothing_known() -> None:
    """Without headers nothing is claimed."""
    assert client() == Client()


@pytest.mark.parametrize(
    ("headers", "patience_s"),
    [
        ({"x_stainless_lang": "python", "x_stainless_read_timeout": "600"}, 590.0),
        ({"x_stainless_lang": "python", "x_stainless_read_timeout": "60", "x_stainless_timeout": "NOT_GIVEN"}, 50.0),
        ({"x_stainless_lang": "python", "x_stainless_timeout": "3600"}, 3590.0),
        ({"x_stainless_lang": "python", "x_stainless_timeout": "5"}, 4.0),
        ({"x_stainless_lang": "python", "x_stainless_timeout": "NOT_GIVEN"}, None),
        ({"x_stainless_lang": "python"}, None),
        ({"x_stainless_lang": "python", "x_stainless_timeout": "-1"}, 590.0),
    ],
)
def test_a_stated_deadline_counts(headers: dict[str, str], patience_s: float | None) -> None:
    """The SDKs for Python state their deadline if they have one; a margin is left."""
    assert client(user_agent="Anthropic/Python 2.11.0", **headers).patience_s == patience_s


@pytest.mark.parametrize(("stated", "patience_s"), [("600", 290.0), ("60", 50.0), ("60000", 50.0)])
def test_node_gives_up_before_its_sdk(stated: str, patience_s: float) -> None:
    """On Node the runtime's limit holds where the SDK states a longer one."""
    assert client(user_agent="OpenAI/JS 7", x_stainless_lang="js", x_stainless_timeout=stated).patience_s == patience_s


def test_claude_code() -> None:
    """Session and sub-agent in its own headers; its retry count, always 0, isn't believed."""
    found = client(
        user_agent="claude-cli/2.1.329 (external, cli)",
        x_claude_code_session_id="s-1",
        x_claude_code_agent_id="0123456789abcdef0",
        x_claude_code_parent_agent_id="fedcba98765432100",
        x_stainless_retry_count="0",
        x_stainless_timeout="600",
        x_stainless_lang="js",
    )
    assert found == Client(
        "claude-code", 290.0, "s-1", "0123456789abcdef0", "fedcba98765432100", try_again=found.try_again
    )
    assert found.try_again.counts_overload


def test_request_classes() -> None:
    """What no work waits for is low; all else is as urgent as its agent. Another header says it in other words."""
    low = ["auxiliary", "side_reply"]
    for kind in ("main", "subagent", "workflow", "compaction", "new", *low):
        assert client(x_claude_code_request_class=kind).priority is (Priority.LOW if kind in low else None)
    assert client(x_claude_1p_request_class="background-task").priority is Priority.LOW
    assert client(x_claude_1p_request_class="blocking-subagent").priority is None


def test_codex() -> None:
    """Its thread is its session, which is no sub-agent and so no parent; a sub-agent is a thread with a parent."""
    main = client(originator="codex_exec", session_id="t-1", thread_id="t-1")
    assert (main.name, main.session, main.agent, main.parent) == ("codex", "t-1", "", "")
    parent = {"x_codex_parent_thread_id": "t-1", "x_openai_subagent": "collab_spawn"}
    sub = client(originator="codex_cli_rs", session_id="t-1", thread_id="t-2", **parent)
    assert (sub.session, sub.agent, sub.parent) == ("t-1", "t-2", "")
    deeper = client(originator="codex", session_id="t-1", thread_id="t-3", x_codex_parent_thread_id="t-2")
    assert (deeper.session, deeper.agent, deeper.parent) == ("t-1", "t-3", "t-2")
    assert client(originator="codex_exec", session_id="t-1", x_openai_subagent="review").agent == "review"


def test_older_codex_and_opencode_sessions() -> None:
    """Underscored names of older versions, opencode's own, and Grok Build's, whose requests for titles name a group."""
    assert client_of([(b"originator", b"codex_cli_rs"), (b"session_id", b"s")]).session == "s"
    found = client(user_agent="opencode/1.18.33", x_session_id="ses_1", x_session_affinity="ses_1")
    assert (found.session, found.agent) == ("ses_1", "")
    assert client(x_opencode_session_id="ses_2", x_session_id="ses_1").session == "ses_2"
    for user_agent in ("opencode/1.18.33", "kilo/latest/7.7.7/cli"):
        sub = client(user_agent=user_agent, x_session_id="ses_3", x_parent_session_id="ses_1")
        assert (sub.session, sub.agent, sub.parent) == ("ses_1", "ses_3", "")
    assert client(user_agent="GeminiCLI-tui/0.61.0", x_hivemind_session="s").session == "s"
    assert client(x_grok_conv_group_id="g", x_grok_session_id="s").session == "g"


def test_title_of_codex() -> None:
    """The request for a title is less urgent than the work, and has a session of its own."""
    metadata = '{"session_id":"t-2","thread_source":"%s","sandbox":"none"}'
    assert client(originator="codex-tui", x_codex_turn_metadata=metadata % "thread_title").priority is Priority.LOW
    assert client(originator="codex-tui", x_codex_turn_metadata=metadata % "user").priority is None


@pytest.mark.parametrize(("value", "count"), [("0", 0), ("2", 2), ("x", None), ("-1", None), ("99999", None)])
def test_retry_count(value: str, count: int | None) -> None:
    """The SDKs count their own retries."""
    assert client(user_agent="OpenAI/Python 3.52.0", x_stainless_retry_count=value).retry_count == count


@pytest.mark.parametrize("value", ["", "has space", "line\nbreak", "x" * 201, "\u00e9"])
def test_odd_ids_are_ignored(value: str) -> None:
    """An id is short printable ASCII, or none."""
    assert client_of([(b"x-session-id", value.encode())]).session == ""
