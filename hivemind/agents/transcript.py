"""A conversation as text for people, whichever API it was meant for; everything in it is shown, nothing interpreted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_TURNS = ("messages", "input", "contents")
"""Under which the turns stand: Anthropic, OpenAI's chat and Ollama; OpenAI's responses; Google."""
_BEFORE = ("system", "instructions", "systemInstruction", "system_instruction")
_TEXTS = ("text", "content", "parts", "input", "arguments", "output", "thinking", "summary", "prompt")


def transcript(conversation: bytes) -> list[str]:
    """Lines of `role: text`. What isn't a conversation in a form that is known is shown as JSON."""
    body = msgspec.json.decode(conversation)
    turns = list(_turns(body)) if isinstance(body, dict) else []
    if not turns:
        return _lines(msgspec.json.format(conversation, indent=2).decode())
    lines = []
    for role, text in turns:
        first, *rest = _lines(text) or [""]
        lines += [f"{role}: {first}", *(f"  {line}" for line in rest)]
    return lines


def printable(text: str) -> str:
    """With nothing that would upset a terminal."""
    text = text.replace("\t", "    ")
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _lines(text: str) -> list[str]:
    return [printable(line) for line in text.splitlines()]


def _turns(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _BEFORE:
        if body.get(name):
            yield "system", _text(body[name])
    for name in _TURNS:
        turns = body.get(name)
        if isinstance(turns, str):
            yield "user", turns
        for turn in turns if isinstance(turns, list) else ():
            yield _role(turn), _text(turn)
    if isinstance(body.get("prompt"), str):
        yield "user", body["prompt"]


def _role(turn: Any) -> str:
    role = turn.get("role") or turn.get("type") if isinstance(turn, dict) else None
    return role if isinstance(role, str) else "user"


def _text(part: Any) -> str:
    """What a turn or a part of one says, its kind before it where it isn't plain text."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "\n".join(_text(each) for each in part)
    if not isinstance(part, dict):
        return msgspec.json.encode(part).decode()
    kind = part.get("type")
    said = next((part[name] for name in _TEXTS if part.get(name)), None)
    more = {key: value for key, value in part.items() if key not in (*_TEXTS, "role", "type", "cache_control")}
    if said is None or not isinstance(said, str | list):
        shown = {key: value for key, value in part.items() if key not in ("role", "type", "cache_control")}
        return f"[{kind}] {_json(shown)}" if isinstance(kind, str) else _json(shown)
    # A tool's name and call are as much a part of it as its text.
    if kind in (None, "text", "message", "input_text", "output_text"):
        return _text(said) + (f"\n{_json(more)}" if more else "")
    return f"[{kind}{' ' + _json(more) if more else ''}] {_text(said)}"


def _json(value: Any) -> str:
    text: str = msgspec.json.encode(value).decode()
    return text
