"""JSON schemas that every client accepts: no references, no titles, and optional fields aren't nullable."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model whose None fields are left out."""
    whole = model.model_json_schema()
    models = whole.pop("$defs", {})
    for each in (whole, *models.values()):
        each.pop("description", None)  # the docstring of the class
    found: dict[str, Any] = _plain(whole, models)
    return found


def _plain(node: Any, models: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(each, models) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _plain({**models[node["$ref"].rpartition("/")[2]], **beside}, models)
    arms = node.get("anyOf", [])
    if {"type": "null"} in arms and len(arms) == 2:
        arm = next(each for each in arms if each != {"type": "null"})
        beside = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
        return _plain({**arm, **beside}, models)
    return {key: _members(key, value, models) for key, value in node.items() if key != "title"}


def _members(key: str, value: Any, models: dict[str, Any]) -> Any:
    if key == "properties":  # the keys are names of fields, one of which may be `title`
        return {name: _plain(each, models) for name, each in value.items()}
    return _plain(value, models)
