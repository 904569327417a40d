"""Codex's rollouts (`~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`).

Read as 0.171 writes them: a `token_usage_record` for each answer; older versions have a `token_count` event alone, that
is repeated without a change. Neither the beginning of a request nor a refusal leaves a line, so a request is taken to
begin with the line that it follows: what the user or a tool said.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from hivemind.journal.importers.lines import decoded, lines
from hivemind.journal.importers.parsed import UnreadableEntry
from hivemind.journal.importers.told import Tale, Told, moment
from hivemind.scheduler.types import Usage

NAME = "codex"
KINDS = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "token_usage_record"})
_ORIGIN = "https://api.openai.com"
_UNITS = ((1440, "d"), (60, "h"), (1, "m"))
_LONGEST_NAME = 40
_INPUTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})


class _Counts(Struct):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0

    @property
    def usage(self) -> Usage:
        """Its input includes what a cache had."""
        cached = self.cached_input_tokens + self.cache_write_input_tokens
        return Usage(
            max(0, self.input_tokens - cached),
            self.cached_input_tokens,
            self.cache_write_input_tokens,
            self.output_tokens,
        )


class _Info(Struct):
    last_token_usage: _Counts | None = None
    total_token_usage: _Counts | None = None


class _Window(Struct):
    used_percent: float
    window_minutes: float | None = None
    resets_at: float | None = None
    resets_in_seconds: float | None = None


class _RateLimits(Struct):
    primary: _Window | None = None
    secondary: _Window | None = None
    limit_name: str | None = None


class _Payload(Struct):
    type: str = ""
    id: str | None = None
    role: str | None = None
    model: str | None = None
    parent_thread_id: str | None = None
    forked_from_id: str | None = None
    response_id: str | None = None
    thread_id: str | None = None
    usage: _Counts | None = None
    info: _Info | None = None
    model_provider: str | None = None
    rate_limits: _RateLimits | None = None


class _Line(Struct):
    timestamp: str = ""
    type: str = ""
    payload: _Payload | None = None


_line = msgspec.json.Decoder(_Line)


def matches(head: list[dict[str, object]]) -> bool:
    """Whether these are lines of such a file."""
    return any(str(line.get("type")) in KINDS and isinstance(line.get("payload"), dict) for line in head)


def read(path: Path) -> Tale:
    """What a file tells. Raises: UsageError: it can't be read."""
    tale = Tale(NAME, unseen=["limits", "first tokens", "starts", "refusals"])
    rollout = _Rollout(tale)
    for text in lines(path, tale):
        try:
            line = decoded(text, _line, tale)
            if line is not None and line.payload is not None:
                rollout.take(line, line.payload)
        except UnreadableEntry as error:
            tale.skip(str(error))
    return tale


class _Rollout:
    def __init__(self, tale: Tale) -> None:
        self.tale = tale
        self.thread = self.parent = self.model = self.origin = ""
        self.asked_at: float | None = None
        self.total: _Counts | None = None
        self.records = False
        """It has a line for each answer, so the other counts repeat it."""

    def take(self, line: _Line, payload: _Payload) -> None:
        if line.type == "session_meta":
            if not self.thread:  # a later one is that of the session that this one was forked from
                self.thread, self.parent = payload.id or "", payload.parent_thread_id or ""
                self.origin = _ORIGIN if payload.model_provider in (None, "openai") else ""
        elif line.type == "turn_context":
            self.model = payload.model or self.model
        elif line.type == "response_item":
            if payload.type in _INPUTS or (payload.type == "message" and payload.role != "assistant"):
                self.asked_at = moment(line.timestamp)
        elif line.type == "token_usage_record" and payload.usage is not None:
            self.records = True
            self._answer(line, payload.usage, payload.response_id or "", payload.thread_id)
        elif payload.type == "token_count":
            self._count(line, payload)

    def _count(self, line: _Line, payload: _Payload) -> None:
        if payload.info is not None and not self.records:
            total, last = payload.info.total_token_usage, payload.info.last_token_usage
            if last is not None and total != self.total:
                self._answer(line, last, f"{line.timestamp} {total}", None)
            self.total = total
        if payload.rate_limits is not None and self.tale.attempts:
            self.tale.attempts[-1].plan = [*_plan(payload.rate_limits, moment(line.timestamp))]

    def _answer(self, line: _Line, counts: _Counts, ident: str, thread: str | None) -> None:
        at = moment(line.timestamp)
        began = at if self.asked_at is None else min(at, self.asked_at)
        told = Told(began, self.thread, NAME, self.model, ident, parent=self.parent, origin=self.origin)
        told.copied = thread is not None and thread != self.thread
        told.end, told.usage, told.stream = at, counts.usage, True
        self.asked_at = None
        self.tale.attempts.append(told)


def _plan(limits: _RateLimits, at: float) -> Iterator[tuple[str, float, float | None]]:
    """The windows of the user's plan, as in `5h` and `7d`; versions before 0.50 say how long they last from then."""
    for place, window in (("primary", limits.primary), ("secondary", limits.secondary)):
        if window is not None:
            name = " ".join(filter(None, (limits.limit_name, _length(window.window_minutes) or place)))
            resets_at = window.resets_at
            if resets_at is None and window.resets_in_seconds is not None:
                resets_at = at + window.resets_in_seconds
            yield name[:_LONGEST_NAME], min(1.0, max(0.0, window.used_percent / 100)), resets_at


def _length(minutes: float | None) -> str:
    if not minutes:
        return ""
    unit, name = next((unit, name) for unit, name in _UNITS if minutes % unit == 0 or unit == 1)
    return f"{minutes / unit:g}{name}"
