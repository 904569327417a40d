"""Answers that fit a JSON schema, where a request asks for one or has to be answered by a tool."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from hivemind_mock.provider.formats.base import Body, ToolCall, objects

_SCHEMAS = """
    response_format.json_schema.schema response_format.schema text.format.schema output_config.format.schema
    output_format.schema generationConfig.responseJsonSchema generationConfig.responseSchema format
"""
"""Where requests have a schema: OpenAI's two APIs (local servers' spelling too), Anthropic's, Google's and Ollama's."""
_MIME = "generationConfig.responseMimeType"
_KINDS = ("response_format.type", "text.format.type", _MIME, "format")
_JSON = ("json_object", "application/json", "json")
"""Where they ask for JSON without a schema, and in which words."""
_NAMES = ("tool_choice.name", "tool_choice.function.name")
_ALLOWED = "toolConfig.functionCallingConfig.allowedFunctionNames"
"""Where they name the tool to call; Google's list those that may be called."""
_PARAMETERS = ("input_schema", "parameters", "parametersJsonSchema")
_LEVELS = (5, 10, 20, 40)
"""Most levels of a value, tried one after the other until one fits."""
_MOST, _STEPS = 1000, 10_000
"""Most letters or items of a part of a value, and most parts of it."""
_FORMATS = """
    date-time=2026-01-01T00:00:00Z date=2026-01-01 time=00:00:00Z duration=PT1S email=a@example.com ipv4=127.0.0.1
    hostname=example.com uri=https://example.com/ uuid=00000000-0000-4000-8000-000000000000 ipv6=::1
"""
_TEXTS = dict(each.split("=") for each in _FORMATS.split())
"""A text that fits a string's format."""


def structured(body: Body) -> ToolCall | str:
    """Return the answer; empty: any text will do, as where nothing fits or what stands there is no schema."""
    with suppress(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        names, allowed = [_at(body, place) for place in _NAMES], _at(body, _ALLOWED) or ()
        for name in (*names, *(allowed if len(allowed) == 1 else ())):
            if isinstance(name, str):
                found = _fitting(_schema_of(body, name))
                return ToolCall(name, "", found if isinstance(found, Mapping) else {})
        for place in _SCHEMAS.split():
            if isinstance(schema := _at(body, place), Mapping):
                found = _fitting(schema)
                plain = isinstance(found, str) and _at(body, _MIME) == "text/x.enum"
                return found if plain else msgspec.json.encode(found).decode()
        return "{}" if any(_at(body, place) in _JSON for place in _KINDS) else ""
    return ""


def _at(value: Any, path: str, mark: str = ".") -> Any:
    for name in path.split(mark):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _schema_of(body: Body, tool: str) -> Mapping[str, Any]:
    for each in objects(body.get("tools")):
        for described in (each.get("function", each), *objects(each.get("functionDeclarations"))):
            if _at(described, "name") == tool:
                return next(filter(None, map(described.get, _PARAMETERS)), {})
    return {}


def _fitting(schema: Mapping[str, Any]) -> Any:
    """Return a small value that fits a schema. Raises: LookupError: none was found."""
    for levels in _LEVELS:
        with suppress(LookupError):
            return _Values(schema).fitting(schema, levels)
    raise LookupError("nothing fits")


class _Values:
    """Makes values that fit parts of a schema, whose references lead into the whole one."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._left = _STEPS

    def fitting(self, schema: Mapping[str, Any], levels: int) -> Any:
        """Return one of so many levels at most. Raises: LookupError: none was found."""
        self._count(1)
        if not levels:
            raise LookupError("too deep")
        if (ref := schema.get("$ref")) is not None:
            return self.fitting(_at({"#": self._whole}, ref, "/") or {}, levels - 1)
        if choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
            for each in choices[:-1]:
                with suppress(LookupError):
                    return self.fitting(each, levels - 1)
            return self.fitting(choices[-1], levels - 1)
        for name in ("const", "default"):
            if name in schema:
                return schema[name]
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type", "null" if schema.get("nullable") else "object")
        kind = (kind if isinstance(kind, str) else kind[0]).lower()
        if kind == "object":
            fields = schema.get("properties", {})
            return {name: self.fitting(fields.get(name, {}), levels - 1) for name in schema.get("required", ())}
        if kind == "array":
            return self._items(schema, levels - 1)
        if kind == "string":
            length = max(int(schema.get("minLength", 0)), min(4, int(schema.get("maxLength", 4))))
            return _TEXTS.get(schema.get("format", "")) or "x" * min(length, _MOST)
        return {"integer": _number, "number": _number, "boolean": lambda _: False}.get(kind, lambda _: None)(schema)

    def _items(self, schema: Mapping[str, Any], levels: int) -> list[Any]:
        first = [self.fitting(each, levels) for each in schema.get("prefixItems", ())]
        more = min(int(schema.get("minItems", 0)), _MOST) - len(first)
        if more <= 0:
            return first
        before, item = self._left, self.fitting(schema.get("items", {}), levels)
        self._count((before - self._left) * (more - 1))
        return [*first, *[item] * more]

    def _count(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise LookupError("too many parts")


def _number(schema: Mapping[str, Any]) -> float:
    """Return 1 or what is near it within the bounds."""
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    above, below = schema.get("exclusiveMinimum", -math.inf), schema.get("exclusiveMaximum", math.inf)
    near = (1, least, most, above + 1, below - 1, (above + below) / 2)
    return next((each for each in near if least <= each <= most and above < each < below), 1)
