"""Recognising clients by their headers, and what each is known to tolerate.

How long clients wait, and what makes them try again after a refusal, was measured with the real programs
(`make refusals`); where a client states its own deadline (`x-stainless-timeout`), that counts.

A temporary refusal of ours takes the form after which its client asks again. So do error events and, once our own
attempts are used up, an upstream's temporary failure: its status, `Retry-After` and for Claude Code its type may
change, its words don't. A client that ends at an error event is begun no stream before its patience needs it.
"""

from __future__ import annotations

import math
import re

from msgspec import Struct

from hivemind.providers.base import Headers
from hivemind.providers.times import parse_number
from hivemind.records import replace
from hivemind.scheduler.ticket import FINAL_STATUS
from hivemind.scheduler.types import Priority

_NODE_S = 290.0
"""Node's fetch times out after 300 s without headers, whatever the SDK allows."""
_PYTHON_S = 590.0
_ID = re.compile(r"[\x21-\x7e]{1,200}")


BRIDGED_S = 130.0
"""How long a client should be able to go on asking, so that it outlives a restart or an upstream's bad two minutes: a
Retry-After is at least this divided by the tries it has left."""


class TryAgain(Struct, frozen=True):
    """The form of a temporary refusal after which a program asks again by itself. The default is a careful one, for
    programs that aren't known."""

    retries: int = 2
    """How often it asks again before it ends."""
    longest_s: float = 59.0
    """The longest Retry-After that it obeys; 0: none."""
    in_streams: bool = True
    """It also asks again after an error event in a stream that had no content."""
    counts_overload: bool = False
    """It ends at the first or third 529 or `overloaded_error`, within seconds."""
    reads_text: bool = False
    """In a stream it obeys `Please try again in 20s` in the message of a `rate_limit_exceeded`."""
    hold_s: float = 0.0
    """How long a refusal is held back, because its own waits are too short."""
    obeys_hint: bool = True
    """After `x-should-retry: false` it doesn't ask again, whatever the status."""
    ends_at: int = FINAL_STATUS
    """The status of a refusal for good after which it asks no more, and shows the message."""
    seen: str = ""
    """Version and date of the measurement."""

    def delay_s(self, asked_s: float | None) -> int:
        """Return the Retry-After, in whole seconds, of a refusal that ends after so long; None: nobody knows."""
        least_s = BRIDGED_S / max(1, self.retries)
        asked_s = 0.0 if asked_s is None or math.isnan(asked_s) else asked_s
        return max(1, math.ceil(min(max(asked_s, least_s), self.longest_s)))


UNKNOWN = TryAgain()


class Client(Struct, frozen=True):
    """The client of one request."""

    name: str = ""
    """As in :data:`PROGRAMS`: `claude-code`, `codex`, `openai-sdk`; empty for others."""
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
    try_again: TryAgain = UNKNOWN
    """What makes it ask again after a refusal."""

    @property
    def silent_s(self) -> float:
        """How long a stream should wait for the upstream's own head, because an error in one that had begun would be
        final for this client."""
        return 0.0 if self.try_again.in_streams or self.patience_s is None else self.patience_s


_Program = tuple[re.Pattern[str], Client]
"""What is searched in the User-Agent, and what is known of the program."""


def _program(pattern: str, name: str, patience_s: float | None, try_again: TryAgain) -> _Program:
    return re.compile(pattern, re.I), Client(name, patience_s, try_again=try_again)


_DAY, _LATER = "2026-11-28", "2026-11-30"
_CLAUDE_CODE = _program(
    "^claude-cli/", "claude-code", 290.0, TryAgain(10, 60.0, counts_overload=True, ends_at=402, seen=f"2.1.332, {_DAY}")
)
_CODEX = _program(
    "^codex", "codex", None, TryAgain(5, 120.0, reads_text=True, obeys_hint=False, seen=f"0.171.0, {_DAY}")
)
_COPILOT = _program("^copilot/", "copilot", 290.0, TryAgain(5, 120.0, obeys_hint=False, seen=f"1.0.102, {_DAY}"))
_GROK = _program(
    "^grok-", "grok-build", None, TryAgain(1, 120.0, counts_overload=True, obeys_hint=False, seen=f"0.2, {_LATER}")
)
_OPENCODE = TryAgain(5, 120.0, obeys_hint=False, seen=f"1.18.33, {_DAY}, and Kilo 7.7.7, {_LATER}")
_QWEN = TryAgain(3, 59.0, in_streams=False, obeys_hint=False, seen=f"0.24.4, {_DAY}")
_VERCEL = TryAgain(2, 59.0, in_streams=False, hold_s=4.0, obeys_hint=False, seen=f"7.0.173 and cline 3.0.65, {_DAY}")
_ANTHROPIC = TryAgain(2, 240.0, in_streams=False, seen=f"Python 2.11.0, JS 1.14.0, {_DAY}")
_ANTHROPIC_0 = TryAgain(2, 60.0, in_streams=False, seen="Python 0.73.0 and 0.125.0, 2026-11-29")
_OPENAI = TryAgain(2, 120.0, in_streams=False, seen=f"Python 3.52.0, {_DAY}")
_VIBE = _program("^vibe/", "vibe", 700.0, TryAgain(5, 30.0, in_streams=False, obeys_hint=False, seen=f"3.0, {_LATER}"))
"""It waits no longer than 30 s, and ends at an error event."""
_SHORT = TryAgain(2, 59.0, in_streams=False, hold_s=4.0, seen=f"OpenAI JS 7.59.0, Anthropic JS 0.36.3, {_DAY}")
_CAREFUL = TryAgain(in_streams=False)
_STAINLESS = Client(try_again=replace(_CAREFUL, seen="Groq 1.7.0, Together 3.1.1, Fireworks 1.2.30, 2026-11-30"))
"""SDKs by the generator of OpenAI's, Cerebras' too. Fireworks' raises nothing at an error event."""
_ONCE = TryAgain(0, in_streams=False, seen=f"AI21 4.3.0, Replicate 1.0.7, {_LATER}")
_ZAI = TryAgain(3, 0.0, in_streams=False, hold_s=32.0, obeys_hint=False, seen=f"0.2.3, {_LATER}")
_GOOGLE = TryAgain(0, in_streams=False, seen=f"Python 3.6.1, JS 3.3.0, {_DAY}")
_OLLAMA = TryAgain(0, in_streams=False, seen="Python 0.6.3, JS 0.6.4, 2026-11-21")

# A new version may behave differently: `make refusals` measures it.
PROGRAMS: tuple[_Program, ...] = (
    # On Anthropic's wire it calls itself claude-cli, with its own version and without a session.
    _program(r"^(?:QwenCode/|claude-cli/0\.)", "qwen-code", 290.0, _QWEN),
    _CLAUDE_CODE,
    _CODEX,
    _COPILOT,
    _program("^opencode/", "opencode", 290.0, _OPENCODE),
    _program("^kilo/", "kilo", 290.0, _OPENCODE),  # which is made of it
    _program("^kimi-code-cli/", "kimi-code", 290.0, TryAgain(9, 120.0, obeys_hint=False, seen=f"2.1.0, {_LATER}")),
    _program("^factory-cli/", "droid", 290.0, TryAgain(4, 0.0, hold_s=24.0, obeys_hint=False, seen=f"0.225, {_LATER}")),
    _program("^GeminiCLI", "gemini-cli", 50.0, TryAgain(9, 240.0, obeys_hint=False, seen=f"0.61.0, {_DAY}")),
    _program("^pi/", "pi", 290.0, TryAgain(3, 0.0, hold_s=32.0, obeys_hint=False, seen=f"1.6.0, {_DAY}")),
    _GROK,
    _VIBE,
    _program("^(?:litellm|DSPy)/", "litellm", 5990.0, TryAgain(obeys_hint=False)),  # which DSPy has, for a base URL
    _program("^lm15/", "", _PYTHON_S, TryAgain(3, 120.0, obeys_hint=False, seen="DSPy 3.4.1, 2026-12-01")),
    # Frameworks ask again as the SDKs do that they stand on; of several, the least that one of them obeys.
    _program("^langchain-anthropic/", "langchain", _PYTHON_S, replace(_ANTHROPIC, seen=f"1.7.10, {_DAY}")),
    _program("^langchain", "langchain", _PYTHON_S, _CAREFUL),
    _program("^pydantic-ai/", "pydantic-ai", _PYTHON_S, replace(_OPENAI, seen=f"2.68.0, {_DAY}")),
    _program("^agent-framework-python/", "agent-framework", _PYTHON_S, replace(_OPENAI, seen=f"1.23.0, {_DAY}")),
    _program("^semantic-kernel-python/", "semantic-kernel", _PYTHON_S, replace(_OPENAI, seen=f"1.45.0, {_DAY}")),
    _program("^Agents/", "openai-agents", _PYTHON_S, _CAREFUL),
    _program(r"\bai-sdk[/-]", "vercel-ai", _NODE_S, _VERCEL),
    _program(r"^(?:Async)?Anthropic/JS 0\.", "anthropic-sdk", _NODE_S, _SHORT),
    _program("^(?:Async)?Anthropic/JS", "anthropic-sdk", _NODE_S, _ANTHROPIC),
    # CrewAI's, Strands's and Semantic Kernel's; a longer Retry-After makes it ask again at once.
    _program(r"^(?:Async)?Anthropic/Python 0\.", "anthropic-sdk", _PYTHON_S, _ANTHROPIC_0),
    _program("^(?:Async)?Anthropic/", "anthropic-sdk", _PYTHON_S, _ANTHROPIC),
    _program("^(?:Async)?(?:Azure)?OpenAI/JS", "openai-sdk", _NODE_S, _SHORT),
    _program("^(?:Async)?(?:Azure)?OpenAI/", "openai-sdk", _PYTHON_S, _OPENAI),
    _program(r"^google-genai-sdk/\S+ gl-node/", "google-sdk", _NODE_S, _GOOGLE),
    _program("^google-genai-sdk/", "google-sdk", None, _GOOGLE),
    _program("^AI21 studio SDK ", "", 290.0, _ONCE),
    _program("^replicate-python/", "", 25.0, _ONCE),
    _program("^(?:node|undici)$", "", _NODE_S, _CAREFUL),  # its own fetch, as Ax's, and Genkit's for Google
    _program("^ollama-js/", "ollama-sdk", _NODE_S, _OLLAMA),
    _program("^ollama-python/", "ollama-sdk", None, _OLLAMA),
)

_WEBSOCKETS = (
    (
        re.compile(r"/(?:realtime|live/sessions)(?:/|$)"),
        "it has no other form, so give the client the provider's own address for it (`websocket_base_url` of OpenAI's"
        " SDKs, beside `base_url`)",
    ),
    (
        re.compile(r"/responses/?$"),
        "Codex goes on over HTTP by itself; in place of `responses.connect()` call `responses.create(stream=True)`",
    ),
    (
        re.compile(r"BidiGenerateContent|/live(?:/|$)"),
        "Live has no other form, so make a client without `base_url` in its `http_options` for it",
    ),
)
"""What to do in place of a WebSocket, by path (openai 3.57, google-genai 3.6)."""


def without_websocket(path: str) -> str:
    """Return what a client whose WebSocket was declined at this path does, or its user should do."""
    default = "use the same API over HTTP, or give the client the provider's own address for it"
    return next((text for pattern, text in _WEBSOCKETS if pattern.search(path)), default)


_SESSIONS = (
    "x-claude-code-session-id",
    "x-opencode-session-id",
    "session-id",
    "session_id",
    "x-session-id",
    "conversation_id",
    "x-session-affinity",
    "x-affinity",  # Mistral's Vibe
    "x-grok-conv-group-id",  # since 1.0; requests for titles have no other
    "x-grok-session-id",
    "x-task-id",  # cline's, to its own service and what stands in for it
    "x-hivemind-session",  # of clients that `hivemind run` gives a session, because they name none
)
_LOW_CLASSES = frozenset({"auxiliary", "side_reply", "background-task", "summary-extraction", "followup-generation"})
"""Claude Code's request classes that no work depends on: titles, asides, suggestions, summaries.

`main`, `subagent`, `workflow` and `compaction` keep the agent's own priority: the next step depends on them, and
naming NORMAL here would undo what the operator set."""
_EARLY_BUN = re.compile(
    rb"(?i)\bbun/1\.(?:[0-2]\.|3\.(?:\d|1[0-3])\b)|^claude-cli/(?:1\.|2\.(?:0\.|1\.(?:\d\d?|1[01]\d)\b))"
)
"""Bun as it calls itself, also to Vercel's SDK, and Claude Code before 2.1.120, which has such a Bun in it."""
_FOLDER, _CACHE_KEY, _SAFETY = b"Session folder: ", b'"prompt_cache_key":', b'"safety_identifier":'
_UUID = rb"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_IN_BODIES = {
    "copilot": (_FOLDER, re.compile(_FOLDER + rb"""[^\s"]{1,500}session-state[/\\]+""" + _UUID)),  # 1.0
    "kimi-code": (_CACHE_KEY, re.compile(_CACHE_KEY + rb'"session_' + _UUID)),  # 2.1
    "droid": (_SAFETY, re.compile(_SAFETY + b'"' + _UUID)),  # 0.225, on OpenAI's API alone
}
"""How a client's body names its session: what to look for, and what it looks like."""
_CODEX_TITLE = '"thread_source":"thread_title"'
"""In Codex's turn metadata: a session of its own that only makes the title of another."""


def client_of(headers: Headers) -> Client:
    """Read a request's headers. Never raises; ids are accepted if they are short and printable."""
    values = {name.decode("latin-1"): value.decode("latin-1").strip() for name, value in headers}
    program = _recognise(values)
    session = next((found for name in _SESSIONS if (found := _id(values, name))), "")
    agent, parent = _lineage(values, session)
    if program.name in ("opencode", "kilo") and (main := _id(values, "x-parent-session-id")):
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


def sends_again(headers: Headers) -> bool:
    """Return whether the client needs a connection for each request: where a kept one breaks off in the middle of an
    answer, Bun before 1.3.14 sends the request again by itself, and appends the second answer to what came of the first
    (`findings/bun-appends-a-second-answer-to-a-cut-one.sh`)."""
    return any(name == b"user-agent" and _EARLY_BUN.search(value) for name, value in headers)


def session_in(client: Client, body: bytes) -> str:
    """Return the session that a client names only in its body; empty: none."""
    sign, form = _IN_BODIES.get(client.name, (b"", None))
    at = body.find(sign) if form is not None and not client.session else -1
    found = None if form is None or at < 0 else form.match(body, at)
    return "" if found is None else found[1].decode()


def _recognise(values: dict[str, str]) -> Client:
    if "x-claude-code-session-id" in values:
        return _CLAUDE_CODE[1]
    if values.get("originator", "").startswith("codex"):
        return _CODEX[1]
    if "x-interaction-type" in values and "x-initiator" in values:
        return _COPILOT[1]  # its User-Agent is that of the SDKs
    user_agent = values.get("user-agent", "")
    if "x-affinity" in values and user_agent.startswith("mistral-client-"):
        return _VIBE[1]  # by Mistral's SDK, which neither asks again nor states a deadline by itself
    if "zai-sdk-ver" in values:
        return Client("", 290.0, try_again=_ZAI)  # its User-Agent is that of httpx
    unknown = _STAINLESS if "x-stainless-lang" in values else Client()
    return next((program for pattern, program in PROGRAMS if pattern.search(user_agent)), unknown)


def _patience(program: Client, values: dict[str, str]) -> float | None:
    """Return the deadline that the client states, less a margin, but no more than its program is known to wait.

    Python SDKs keep the deadline they state, and have none if they state none; on Node the runtime's limit is shorter
    than the SDK's.
    """
    names = ("x-stainless-read-timeout", "x-stainless-timeout")
    stated = next((found for name in names if (found := parse_number(values.get(name, "")))), None)
    language = values.get("x-stainless-lang")
    known = _NODE_S if language == "js" else program.patience_s
    if language == "js" and stated is not None and stated >= 10_000:
        stated /= 1000  # of early versions, up to OpenAI's 4.91, milliseconds; nobody waits for hours
    if stated is None or stated <= 0:
        return None if stated is None and language == "python" else known  # they leave it out where they have none
    tolerated = max(stated - 10.0, stated * 0.8)
    limit = None if language == "python" else known
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
