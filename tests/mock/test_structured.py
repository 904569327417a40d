"""Answers of the mock that a program reads as JSON."""

from __future__ import annotations

import json
from typing import Any

import httpx
import jsonschema
import pytest
from mock.conftest import Play

from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import MockConfig

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "why": {"type": "string", "minLength": 9},
        "score": {"type": "integer", "minimum": 1, "maximum": 9},
        "next": {"enum": ["user", "model"]},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}, "minItems": 2},
        "more": {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
        "kind": {"const": "k"},
        "old": {"type": ["boolean", "null"]},
        "tree": {"$ref": "#/$defs/tree"},
        "at": {"type": "string", "format": "date-time"},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2},
        "little": {"type": "string", "maxLength": 2},
        "more_than": {"type": "integer", "exclusiveMinimum": 3},
        "part": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    },
    "$defs": {
        "part": {"type": "object", "properties": {"size": {"type": "number"}}, "required": ["size"]},
        "pair": {
            "type": "object",
            "properties": {each: {"$ref": "#/$defs/tree"} for each in "lr"},
            "required": ["l", "r"],
        },
        "tree": {"anyOf": [{"$ref": "#/$defs/pair"}, {"type": "integer"}]},
    },
}
SCHEMA["required"] = [*SCHEMA["properties"]]
TOOL = {"name": "f", "input_schema": SCHEMA}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
GOOGLE = "/v1beta/models/g:generateContent"
ASKED: dict[str, tuple[str, dict[str, Any], tuple[str | int, ...]]] = {
    "chat": (
        CHAT,
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
        ("choices", 0, "message", "content"),
    ),
    "responses": (
        RESPONSES,
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
        ("output", 0, "content", 0, "text"),
    ),
    "messages": (
        MESSAGES,
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        ("content", 0, "text"),
    ),
    "messages, as in the beta": (MESSAGES, {"output_format": {"schema": SCHEMA}}, ("content", 0, "text")),
    "chat, of local servers": (
        CHAT,
        {"response_format": {"type": "json_object", "schema": SCHEMA}},
        ("choices", 0, "message", "content"),
    ),
    "google": (
        GOOGLE,
        {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
        ("candidates", 0, "content", "parts", 0, "text"),
    ),
    "ollama": ("/api/chat", {"format": SCHEMA, "stream": False}, ("message", "content")),
    "a tool": (MESSAGES, {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}}, ("content", 0, "input")),
    "a tool of Google's": (
        GOOGLE,
        {
            "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": SCHEMA}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        },
        ("candidates", 0, "content", "parts", 0, "functionCall", "args"),
    ),
    "a function": (
        CHAT,
        {"tools": [FUNCTION], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        ("choices", 0, "message", "tool_calls", 0, "function", "arguments"),
    ),
}


def answered(play: Play[Any], path: str, body: dict[str, Any], *place: str | int) -> Any:
    async def scene(_: MockProvider, client: httpx.AsyncClient) -> Any:
        found = (await client.post(path, json={"model": "m", "messages": [], "input": "", **body})).json()
        for step in place:
            found = found[step]
        return found

    return play(MockConfig(), scene)


@pytest.mark.parametrize(("path", "body", "place"), ASKED.values(), ids=list(ASKED))
def test_they_fit_the_schema(play: Play[Any], path: str, body: dict[str, Any], place: tuple[str | int, ...]) -> None:
    """That the request has, in the place of each format."""
    found = answered(play, path, body, *place)
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.validate(json.loads(found) if isinstance(found, str) else found, SCHEMA, format_checker=checker)


ENDLESS = {"properties": {each: {"$ref": "#"} for each in "abcdefgh"}, "required": [*"abcdefgh"]}
WIDE: dict[str, Any] = {"type": "string"}
for _ in range(3):
    WIDE = {"type": "array", "minItems": 1000, "items": WIDE}


@pytest.mark.parametrize(
    "schema",
    [{"enum": []}, {"$ref": 7}, {"type": 3}, {"properties": [], "required": ["a"]}, {"$ref": "#"}, ENDLESS, WIDE],
)
def test_what_is_no_schema_is_answered_by_any_text(play: Play[Any], schema: object) -> None:
    text = answered(
        play, *ASKED["chat"][:1], {"response_format": {"json_schema": {"schema": schema}}}, *ASKED["chat"][2]
    )
    assert len(text.split()) > 20


def test_google_spells_types_in_capitals_and_json_needs_no_schema(play: Play[Any]) -> None:
    """Its JavaScript library writes counts as texts, its Python one null without a type; a word alone is no JSON."""
    fields = {"a": {"type": "INTEGER"}, "b": {"type": "STRING", "minLength": "5"}, "c": {"nullable": True}}
    schema, place = {"type": "OBJECT", "properties": fields, "required": ["a", "b", "c"]}, ASKED["google"][2]
    assert (
        answered(play, GOOGLE, {"generationConfig": {"responseSchema": schema}}, *place)
        == '{"a":1,"b":"xxxxx","c":null}'
    )
    word = {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["red", "blue"]}}
    assert answered(play, GOOGLE, {"generationConfig": word}, *place) == "red"
    assert answered(play, CHAT, {"response_format": {"type": "json_object"}}, *ASKED["chat"][2]) == "{}"
