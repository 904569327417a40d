"""A conversation as text for people, whichever API it was meant for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_TURNS = ("messages", "input", "contents")
"""Names of the list of turns: Anthropic, OpenAI's chat and Ollama; OpenAI's responses; Google."""
_BEFORE = ("system", "instructions", "systemInstruction", "system_instruction")
_TEXTS = ("text", "content", "parts", "input", "arguments", "output", "thinking", "summary", "prompt")
_LEFT_OUT = ("role", "type", "cache_control")


def transcript(conversation: bytes) -> list[str]:
    """Return lines of `role: text`. A conversation in an unknown form is shown as JSON."""
    body = msgspec.json.decode(conversation)
    turns = list(_turns(body)) if isinstance(body, dict) else []
    if not turns:
        turns = [("", msgspec.json.format(conversation, indent=2).decode())]
    lines = []
    for role, text in turns:
        first, *rest = [printable(line) for line in text.splitlines()] or [""]
        lines += [f"{role}: {first}", *(f"  {line}" for line in rest)] if role else [first, *rest]
    return lines


def printable(text: str) -> str:
    """Return the text without characters that a terminal would interpret."""
    text = text.replace("\t", "    ")
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _turns(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _BEFORE:
        if body.get(name):
            yield "system", _text(body[name])
    for name in _TURNS:
        turns = body.get(name)
        if isinstance(turns, str):
            yield "user", turns
        for turn in turns if isinstance(turns, list) else ():
            role = turn.get("role") or turn.get("type") if isinstance(turn, dict) else None
            yield role if isinstance(role, str) else "user", _text(turn)
    if isinstance(body.get("prompt"), str):
        yield "user", body["prompt"]


def _text(part: Any) -> str:
    """Return the text of a turn or a part, after its kind if it isn't plain text."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "\n".join(_text(each) for each in part)
    if not isinstance(part, dict):
        return _json(part)
    kind = part.get("type")
    content = next((part[name] for name in _TEXTS if part.get(name)), None)
    others = {key: value for key, value in part.items() if key not in _LEFT_OUT}
    if content is None or not isinstance(content, str | list):
        return f"[{kind}] {_json(others)}" if isinstance(kind, str) else _json(others)
    # A tool's name and call are as much a part of it as its text.
    more = {key: value for key, value in others.items() if key not in _TEXTS}
    if kind in (None, "text", "message", "input_text", "output_text"):
        return _text(content) + (f"\n{_json(more)}" if more else "")
    return f"[{kind}{' ' + _json(more) if more else ''}] {_text(content)}"


def _json(value: Any) -> str:
    text: str = msgspec.json.encode(value).decode()
    return text
