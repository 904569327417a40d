"""Claude Code's session files (`~/.claude/projects/*/*.jsonl`, sub-agents' in `SESSION/subagents/`).

Read as 2.1.332 writes them: an `api-request` line begins each attempt, and each block of an answer is an `assistant`
line with the usage of all of it. A failed attempt of the main agent leaves a `system` line (`api_error`), unless it was
the last one, which leaves an answer by `<synthetic>`; one of a sub-agent leaves nothing but its `api-request`. A forked
session repeats all of these but `api-request`, under its own session id. Older versions have no `api-request` lines: an
attempt is taken to begin with the line that its answer follows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hivemind.errors import UsageError
from hivemind.journal.importers.lines import decoded, lines
from hivemind.journal.importers.parsed import UnreadableEntry
from hivemind.journal.importers.told import Tale, Told, moment, read_usage, stated_limits
from hivemind.providers.tiers import tier_of
from hivemind.scheduler.types import Usage

NAME = "claude-code"
_ORIGIN = "https://api.anthropic.com"
_WANTED = (b'"assistant"', b'"api-request"', b'"api_error"', b'"cost-state"', b'"user"')
"""One of these is in each line that counts; those left out are most of the bytes."""
_LATE_S = 0.1
"""Lines about one moment aren't written in order."""


class _Error(Struct):
    status: int | None = None
    message: str | None = None


class _Meta(Struct):
    toolUseId: str = ""
    spawnDepth: int = 1


class _CacheCreation(Struct):
    ephemeral_1h_input_tokens: int = 0


class _Usage(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0
    cache_creation: _CacheCreation | None = None
    speed: str | None = None
    service_tier: str | None = None
    iterations: list[dict[str, Any]] | None = None


class _Message(Struct):
    id: str = ""
    model: str = ""
    usage: _Usage | None = None


class _Params(Struct):
    model: str = ""
    max_tokens: int | None = None
    speed: str | None = None


class _Line(Struct, rename={"session": "sessionId", "agent": "agentId"}):
    type: str = ""
    subtype: str | None = None
    session: str = ""
    agent: str | None = None
    uuid: str = ""
    parentUuid: str | None = None
    isSidechain: bool = False
    timestamp: str = ""
    id: str = ""
    requestId: str | None = None
    requestRef: str | None = None
    params: _Params | None = None
    message: _Message | None = None
    error: _Error | str | None = None
    retryInMs: float | None = None
    isApiErrorMessage: bool = False
    apiErrorStatus: int | None = None
    querySource: str | None = None
    totalCostUSD: float | None = None
    startTime: float | None = None


_line = msgspec.json.Decoder(_Line)


def matches(head: list[dict[str, object]]) -> bool:
    """Whether these are lines of such a file."""
    return any("sessionId" in line and isinstance(line.get("type"), str) for line in head)


class _Chain:
    """The attempts of one agent, one after another."""

    def __init__(self) -> None:
        self.open: list[Told] = []
        """Begun, and neither answered nor failed; the latest last."""
        self.retried: Told | None = None
        """Failed, and asked again next."""
        self.asked_at: float | None = None
        """When the last line came that a request may follow."""


class _Session:
    def __init__(self, tale: Tale) -> None:
        self.tale = tale
        self.chains: dict[str, _Chain] = {}
        self.begun: dict[str, Told] = {}
        """By the id of their `api-request`."""
        self.answers: dict[str, Told] = {}
        """By message."""
        self.roots: dict[str, str] = {}
        """Of lines of sub-agents that stand among their session's (before 2.1), the agent."""
        self.unbegun: list[Told] = []
        self.errors: set[str] = set()
        """Lines of errors that were taken: a resumed session may repeat them in its own file."""

    def take(self, line: _Line) -> None:
        agent = self._agent(line)
        chain = self.chains.setdefault(agent, _Chain())
        if line.type == "api-request":
            if line.id not in self.begun:
                self._begin(line, agent, chain)
        elif line.type == "cost-state" and line.totalCostUSD is not None:
            self.tale.dollars[f"{line.startTime or line.session}"] = line.totalCostUSD
        elif line.type == "assistant" and line.message is not None:
            if line.message.model == "<synthetic>" or line.isApiErrorMessage:
                if line.isApiErrorMessage and chain.open:
                    self._fail(chain.open[-1], chain, moment(line.timestamp), line.apiErrorStatus, again=False)
            elif line.message.usage is not None:
                self._answer(line, line.message, agent, chain)
        elif line.subtype == "api_error":
            if not line.uuid or line.uuid not in self.errors:
                self.errors.add(line.uuid)
                self._error(line, agent, chain)
        elif line.type == "user":
            chain.asked_at = moment(line.timestamp)

    def _agent(self, line: _Line) -> str:
        if line.agent or not line.isSidechain:
            return line.agent or ""
        root = self.roots.get(line.parentUuid or "", line.uuid)
        self.roots[line.uuid] = root
        return root

    def _told(self, line: _Line, agent: str, at: float) -> Told:
        return Told(at, line.session, NAME, agent=agent, origin=_ORIGIN, stream=True)

    def _begin(self, line: _Line, agent: str, chain: _Chain) -> None:
        at, params = moment(line.timestamp), line.params or _Params()
        told = self._told(line, agent, at)
        told.model, told.max_output = params.model, params.max_tokens
        told.ident, told.request, told.tier = line.id, line.id, tier_of(params.speed or "")
        before = chain.retried
        if before is None and agent and chain.open and chain.open[-1].model == told.model:
            # Of a sub-agent's failures nothing else is written down, and it asks one thing after another.
            before = chain.open[-1]
            self._fail(before, chain, None, None, again=True)
        if before is not None:
            told.request, chain.retried = before.request, None
        chain.open.append(told)
        self.begun[line.id] = told
        self.tale.attempts.append(told)

    def _answer(self, line: _Line, message: _Message, agent: str, chain: _Chain) -> None:
        at = moment(line.timestamp)
        told = self.answers.get(message.id)
        if told is None:
            told = self.begun.get(line.requestRef or "")
            if told is None:
                told = self._unbegun(line, agent, chain, at)
            elif told in chain.open:
                chain.open.remove(told)
            told.ident, told.model = message.id or told.ident, message.model or told.model
            told.failed = told.left = False
            told.status = 200
            self.answers[message.id or line.uuid] = told
        told.end = max(at, told.end or at)
        usage = None if message.usage is None else _usage_of(message.usage)
        if usage is not None and (told.usage is None or usage.output_tokens >= told.usage.output_tokens):
            told.usage, told.tier = usage, usage.tier or told.tier

    def _unbegun(self, line: _Line, agent: str, chain: _Chain, at: float) -> Told:
        """An attempt whose beginning isn't in this file: it is an older version's, or a copy."""
        began = chain.asked_at if chain.asked_at is not None and chain.asked_at <= at else at
        told = self._told(line, agent, began)
        told.copied = line.requestRef is not None
        told.request = line.message.id if line.message is not None else line.uuid
        if chain.retried is not None:
            told.request, chain.retried = chain.retried.request, None
        chain.asked_at = None
        self.unbegun.append(told)
        self.tale.attempts.append(told)
        return told

    def _error(self, line: _Line, agent: str, chain: _Chain) -> None:
        at = moment(line.timestamp)
        told = next((each for each in reversed(chain.open) if each.at <= at + _LATE_S), None)
        if told is None:
            told = self._unbegun(line, agent, chain, at)
        told.ident = line.uuid
        status = line.error.status if isinstance(line.error, _Error) else None
        told.limits = stated_limits(line.error.message) if isinstance(line.error, _Error) else []
        self._fail(told, chain, max(at, told.at), status or 0, again=line.retryInMs is not None)
        if line.retryInMs is not None:
            chain.asked_at = at + line.retryInMs / 1000

    def _fail(self, told: Told, chain: _Chain, at: float | None, status: int | None, *, again: bool) -> None:
        told.failed, told.status, told.end = True, status, at
        if told in chain.open:
            chain.open.remove(told)
        chain.retried = told if again else None

    def end(self) -> None:
        """What has no answer by now was given up, and what didn't begin in a file of a version that says so is a
        copy."""
        for told in self.unbegun:
            told.copied = told.copied or bool(self.begun)
        if any(not told.copied for told in self.unbegun):
            self.tale.unseen.append("starts")
        for chain in self.chains.values():
            for told in chain.open:
                told.left, told.status = True, 0


def read(path: Path) -> Tale:
    """What a file tells. Raises: UsageError: it can't be read."""
    tale = Tale(NAME, unseen=["limits", "first tokens"])
    session = _Session(tale)
    for line in _lines_of(path, tale):
        try:
            session.take(line)
        except UnreadableEntry as error:
            tale.skip(str(error))
    session.end()
    if path.parent.name == "subagents" and (parent := _parent(path)):
        for told in tale.attempts:
            told.parent = parent
    return tale


def _parent(path: Path) -> str:
    """Return the sub-agent that started the one of this file; empty: the session did."""
    with contextlib.suppress(OSError, UsageError, msgspec.MsgspecError):
        meta = msgspec.json.decode(path.with_suffix(".meta.json").read_bytes(), type=_Meta)
        if meta.spawnDepth < 2 or not meta.toolUseId:
            return ""
        call = b'"id":' + msgspec.json.encode(meta.toolUseId)
        for other in path.parent.glob("agent-*.jsonl"):
            if any(call in line and b'"assistant"' in line for line in lines(other, Tale(NAME))):
                return other.stem.removeprefix("agent-")
    return ""


def _lines_of(path: Path, tale: Tale) -> Iterator[_Line]:
    for text in lines(path, tale):
        if not any(word in text for word in _WANTED):
            continue
        if (line := decoded(text, _line, tale)) is not None:
            yield line


def _usage_of(found: _Usage) -> Usage | None:
    if found.iterations and len(found.iterations) > 1:
        return read_usage("/v1/messages", msgspec.json.encode(found))
    written = found.cache_creation_input_tokens or 0
    hour = 0 if found.cache_creation is None else min(written, found.cache_creation.ephemeral_1h_input_tokens)
    tier = tier_of(found.speed or "") or tier_of(found.service_tier or "")
    return Usage(
        *(found.input_tokens, found.cache_read_input_tokens or 0, written, found.output_tokens, hour), tier=tier
    )
