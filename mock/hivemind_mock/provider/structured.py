"""Answers that fit a JSON schema, where a request asks for one or has to be answered by a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hivemind_mock.provider.formats.base import Body, ToolCall, objects

_SCHEMAS = (
    ("response_format", "json_schema", "schema"),
    ("text", "format", "schema"),
    ("output_config", "format", "schema"),
    ("generationConfig", "responseJsonSchema"),
    ("generationConfig", "responseSchema"),
    ("format",),
)
"""Where requests have it: OpenAI's two APIs, Anthropic's, Google's and Ollama's."""
_ANY_JSON = (
    (("response_format", "type"), "json_object"),
    (("text", "format", "type"), "json_object"),
    (("generationConfig", "responseMimeType"), "application/json"),
    (("format",), "json"),
)
"""Where they ask for JSON without one."""
_DEEPEST, _MOST = 12, 1000
"""Levels of a value, and letters or items of a part of it."""


def structured(body: Body) -> ToolCall | str:
    """Return the answer; empty: any text will do, as where what stands there is no schema."""
    try:
        choice = body.get("tool_choice")
        name = _at(choice, "name") or _at(choice, "function", "name")
        if isinstance(name, str):
            schema = _schema_of(body, name)
            return ToolCall(name, "", _fitting(schema, schema))
        for place in _SCHEMAS:
            if isinstance(schema := _at(body, *place), Mapping):
                return msgspec.json.encode(_fitting(schema, schema)).decode()
    except (AttributeError, LookupError, TypeError):
        return ""
    return "{}" if any(_at(body, *place) == word for place, word in _ANY_JSON) else ""


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _schema_of(body: Body, tool: str) -> Mapping[str, Any]:
    for each in objects(body.get("tools")):
        described = each.get("function", each)
        if _at(described, "name") == tool:
            return described.get("input_schema") or described.get("parameters") or {}
    return {}


def _fitting(schema: Mapping[str, Any], whole: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a small value that fits a schema, whose references lead into the whole one."""
    if depth > _DEEPEST:
        return None
    if (ref := schema.get("$ref")) is not None:
        return _fitting(_at(whole, *ref.split("/")[1:]) or {}, whole, depth + 1)
    if choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return _fitting(choices[0], whole, depth + 1)
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    kind = (kind if isinstance(kind, str) else kind[0]).lower()
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: _fitting(fields.get(name, {}), whole, depth + 1) for name in schema.get("required", ())}
    if kind == "array":
        return [_fitting(schema.get("items", {}), whole, depth + 1)] * min(schema.get("minItems", 0), _MOST)
    text, number = "x" * min(schema.get("minLength", 4), _MOST), schema.get("minimum", min(1, schema.get("maximum", 1)))
    return {"string": text, "integer": number, "number": number, "boolean": False}.get(kind)
