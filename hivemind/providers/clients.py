"""Recognising clients by their headers, and what each is known to tolerate.

How long clients wait, and which delays they accept, was observed with the real programs against a silent server; where
a client states its own deadline (`x-stainless-timeout`), that counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hivemind.providers.base import Headers
from hivemind.providers.times import parse_number
from hivemind.scheduler.types import Priority

_NODE_S = 290.0
"""Node's fetch times out after 300 s without headers, whatever the SDK allows."""
_PYTHON_S = 590.0
_ID = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True, slots=True)
class Client:
    """The client of one request."""

    name: str = ""
    """`claude-code`, `codex`, `opencode`, `gemini-cli`, `anthropic-sdk`, `openai-sdk`, `google-sdk`, `ollama-sdk`,
    `litellm`, `langchain`, `vercel-ai`, `openai-agents`; empty for others."""
    patience_s: float | None = None
    """How long it certainly waits for response headers; None: for ever, or unknown."""
    session: str = ""
    """Its id for one run of the program."""
    agent: str = ""
    """The sub-agent within the session; empty for the main one."""
    parent: str = ""
    """The sub-agent or thread that started this one."""
    priority: Priority | None = None
    """A hint that this request is less urgent than its agent; None: no hint."""
    retry_count: int | None = None
    """How many times the client has sent this request before; None if it doesn't state that reliably."""
    max_retry_after_s: float | None = None
    """The longest Retry-After it obeys; None: any."""


_Program = tuple[re.Pattern[str], Client]
"""What is searched in the User-Agent, and what is known of the program."""


def _program(pattern: str, name: str, patience_s: float | None = None, longest: float | None = None) -> _Program:
    return re.compile(pattern, re.I), Client(name, patience_s, max_retry_after_s=longest)


_CLAUDE_CODE = _program(r"^claude-cli/", "claude-code", 290.0, 60.0)
_CODEX = _program(r"^codex", "codex")
_PROGRAMS = (
    _CLAUDE_CODE,
    _CODEX,
    _program(r"^opencode/", "opencode", 290.0),
    _program(r"^GeminiCLI", "gemini-cli", 50.0, 300.0),
    _program(r"^litellm/", "litellm", 5990.0),
    _program(r"^langchain", "langchain", _PYTHON_S),
    _program(r"^Agents/", "openai-agents", _PYTHON_S, 120.0),
    _program(r"\bai-sdk/", "vercel-ai", _NODE_S),
    _program(r"^(?:Async)?Anthropic/JS", "anthropic-sdk", _NODE_S),
    _program(r"^(?:Async)?Anthropic/", "anthropic-sdk", _PYTHON_S),
    _program(r"^(?:Async)?(?:Azure)?OpenAI/JS", "openai-sdk", _NODE_S),
    _program(r"^(?:Async)?(?:Azure)?OpenAI/", "openai-sdk", _PYTHON_S, 120.0),
    _program(r"^google-genai-sdk/\S+ gl-node/", "google-sdk", _NODE_S),
    _program(r"^google-genai-sdk/", "google-sdk"),
    _program(r"^ollama-js/", "ollama-sdk", _NODE_S),
    _program(r"^ollama-python/", "ollama-sdk"),
)

_SESSIONS = (
    "x-claude-code-session-id",
    "x-opencode-session-id",
    "session-id",
    "session_id",
    "x-session-id",
    "conversation_id",
    "x-session-affinity",
    "x-hivemind-session",  # of clients that `hivemind run` gives a session, because they name none
)
_LOW_CLASSES = frozenset({"auxiliary", "side_reply", "background-task", "summary-extraction", "followup-generation"})
"""Claude Code's request classes that no work depends on: titles, asides, suggestions, summaries.

`main`, `subagent`, `workflow` and `compaction` keep the agent's own priority: the next step depends on them, and
naming NORMAL here would undo what the operator set."""
_CODEX_TITLE = '"thread_source":"thread_title"'
"""In Codex's turn metadata: a session of its own that only makes the title of another."""


def client_of(headers: Headers) -> Client:
    """Read a request's headers. Never raises; ids are accepted if they are short and printable."""
    values = {name.decode("latin-1"): value.decode("latin-1").strip() for name, value in headers}
    program = _recognise(values)
    session = next((found for name in _SESSIONS if (found := _id(values, name))), "")
    agent, parent = _lineage(values, session)
    if program.name == "opencode" and (main := _id(values, "x-parent-session-id")):
        session, agent = main, session  # a sub-agent has a session of its own
    return replace(
        program,
        patience_s=_patience(program, values),
        session=session,
        agent=agent,
        parent=parent,
        priority=_priority(values),
        retry_count=None if program.name == "claude-code" else _retries(values),
    )


def _recognise(values: dict[str, str]) -> Client:
    if "x-claude-code-session-id" in values:
        return _CLAUDE_CODE[1]
    if values.get("originator", "").startswith("codex"):
        return _CODEX[1]
    user_agent = values.get("user-agent", "")
    return next((program for pattern, program in _PROGRAMS if pattern.search(user_agent)), Client())


def _patience(program: Client, values: dict[str, str]) -> float | None:
    """Return the deadline that the client states, less a margin, but no more than its program is known to wait.

    Python SDKs keep the deadline they state; on Node the runtime's limit is shorter than the SDK's.
    """
    names = ("x-stainless-read-timeout", "x-stainless-timeout")
    stated = next((found for name in names if (found := parse_number(values.get(name, "")))), None)
    if stated is None or stated <= 0:
        return program.patience_s
    tolerated = max(stated - 10.0, stated * 0.8)
    limit = None if values.get("x-stainless-lang") == "python" else program.patience_s
    return tolerated if limit is None else min(tolerated, limit)


def _lineage(values: dict[str, str], session: str) -> tuple[str, str]:
    """Return sub-agent and parent, as Claude Code and Codex report them.

    A Codex sub-agent is a thread of its own within the session of its parent. The main one's thread is the session,
    and no sub-agent.
    """
    agent = _id(values, "x-claude-code-agent-id")
    if agent:
        return agent, _id(values, "x-claude-code-parent-agent-id")
    parent = _id(values, "x-codex-parent-thread-id")
    thread = _id(values, "thread-id")
    if parent or values.get("x-openai-subagent"):
        return thread or _id(values, "x-openai-subagent"), parent if parent != session else ""
    return (thread if thread != session else ""), ""


def _priority(values: dict[str, str]) -> Priority | None:
    classes = (values.get("x-claude-code-request-class"), values.get("x-claude-1p-request-class"))
    low = _LOW_CLASSES.intersection(filter(None, classes)) or _CODEX_TITLE in values.get("x-codex-turn-metadata", "")
    return Priority.LOW if low else None


def _retries(values: dict[str, str]) -> int | None:
    count = parse_number(values.get("x-stainless-retry-count", ""))
    return int(count) if count is not None and 0 <= count < 1000 else None


def _id(values: dict[str, str], name: str) -> str:
    value = values.get(name, "")
    return value if _ID.fullmatch(value) else ""
