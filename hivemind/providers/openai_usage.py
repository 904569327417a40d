"""Usage as OpenAI's APIs report it: cached tokens are part of the input, reasoning is part of the output."""

from __future__ import annotations

from msgspec import Raw, Struct

from hivemind.providers import json_fields
from hivemind.scheduler.types import Usage


class _Details(Struct):
    cached_tokens: Raw = Raw()
    cache_write_tokens: Raw = Raw()


class _Usage(Struct):
    prompt_tokens: Raw = Raw()
    completion_tokens: Raw = Raw()
    prompt_tokens_details: Raw = Raw()
    input_tokens: Raw = Raw()
    output_tokens: Raw = Raw()
    input_tokens_details: Raw = Raw()


_usage = json_fields.decoder(_Usage)
_details = json_fields.decoder(_Details)


def openai_usage(raw: Raw) -> Usage | None:
    """Read a `usage` object of chat completions (`prompt_tokens` …) or of responses (`input_tokens` …)."""
    found = json_fields.read(_usage, raw)
    if found is None:
        return None
    prompt = _either(found.prompt_tokens, found.input_tokens)
    output = _either(found.completion_tokens, found.output_tokens)
    if prompt is None and output is None:
        return None
    filled = json_fields.filled(found.prompt_tokens_details)
    details = json_fields.read(_details, found.prompt_tokens_details if filled else found.input_tokens_details)
    total = prompt or 0
    cached = min(total, json_fields.count(details.cached_tokens) or 0) if details else 0
    written = min(total - cached, json_fields.count(details.cache_write_tokens) or 0) if details else 0
    return Usage(total - cached - written, cached, written, output or 0)


def _either(first: Raw, second: Raw) -> int | None:
    value = json_fields.count(first)
    return json_fields.count(second) if value is None else value
