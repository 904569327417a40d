"""The OpenAPI 3.1 description of the control API, generated from its endpoints and types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_type_hints

import msgspec

from hivemind import __version__
from hivemind.agent_names import LONGEST
from hivemind.api_types import PREFIX, CommandRequest, ErrorBody, NoInput
from hivemind.control.api import ENDPOINTS, TICKET, Endpoint
from hivemind.control.parsing import COMMANDS, WHO_LENGTH
from hivemind.records import names_of, required_of
from hivemind.scheduler import ledger, tasks
from hivemind.scheduler.commands import EXIT_CODES
from hivemind.scheduler.operator.knobs import KNOBS, Knob
from hivemind.scheduler.operator.operate import HIGHEST_LEVEL, LONGEST_BOOST_S
from hivemind.scheduler.types import Priority
from hivemind.settings.options import described
from hivemind.world.health import VERDICTS
from hivemind.world.verdict import CODES

PATH = PREFIX + "/openapi.json"
DESCRIPTION = """\
What the control room does, for scripts: read the proxy's state, and change it. The token is in the proxy's note,
`control-PORT.json` in its state directory, unless the proxy was started with a token of your choice. The processes of a
run have a token of their own, HIVEMIND_RUN_TOKEN, for what a run may do; the rest is a 403 to them.

A response that isn't a 200 holds one line that says what is wrong. Priorities are names; in the snapshot and its
requests, which are read many times a second, they are numbers, 0 being the most urgent. Times are seconds, `at` on the
proxy's own clock. JSON has no infinity, so a number without a limit is null."""

_REF = "#/components/schemas/"
_UNLIMITED = {"LaneState": ("level", "ceiling"), "WindowState": ("limit", "remaining"), "CurvePoint": ("level",)}
"""Numbers that may be infinite, which JSON has as null."""
_NAME = {"minLength": 1, "maxLength": LONGEST}
_WHO = {"minLength": 1, "maxLength": WHO_LENGTH}
_EXIT_CODE = {"minimum": EXIT_CODES[0], "maximum": EXIT_CODES[-1]}
_SEGMENTS = {
    "name": {"type": "string", "pattern": r"^(?!(\.|%2[eE]){1,2}(;|$))[^\x00-\x1f\x7f\\/]+$"},
    "ticket": {"type": "string", "pattern": f"^{TICKET.pattern}$"},
}
"""The paths' parameters."""
_NULL = {"type": "null"}
_LIMITS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "AddNote": {"text": {"minLength": 1}},
    "BeginAgent": {"agent": _NAME},
    "BoostAgent": {"for_s": {"minimum": 0, "maximum": LONGEST_BOOST_S}},
    "ClaimRequest": {"who": _WHO},
    "DraftApproval": {"who": _WHO},
    "EndAgent": {"exit_code": _EXIT_CODE},
    "PinLevel": {"level": {"minimum": 1, "maximum": HIGHEST_LEVEL}},
    "PlaceRelease": {"exit_code": _EXIT_CODE, "who": _WHO},
    "PlaceRequest": {"agent": _NAME, "who": _WHO},
    "RequestsQuery": {"since": {"minimum": 0}},
    "SetBudget": {
        "agent": _NAME,
        "tokens": {"minimum": 1, "maximum": ledger.MOST_TOKENS},
        "dollars": {"exclusiveMinimum": 0, "maximum": ledger.MOST_DOLLARS},
    },
    "TaskSpec": {
        "id": {"pattern": f"^{tasks.ID.pattern}$"},
        "batch": {"pattern": f"^({tasks.ID.pattern})?$"},
        "estimated_tokens": {"minimum": 0, "maximum": tasks.MOST_TOKENS},
        "attempts": {"minimum": 1, "maximum": tasks.MOST_ATTEMPTS},
    },
}
"""What else holds for the fields of requests, by their types: the scheduler checks it."""
_TEXT = {"type": "string"}
_HEALTH = {
    "type": "object",
    "properties": {
        "status": {"enum": ["serving", "paused", "draining"]},
        "version": _TEXT,
        "uptime_s": {"type": "number", "minimum": 0},
        "fleet": {
            "enum": ["connecting", "idle", "joining", "leased", "learning", "safe", "alone"],
            "description": "How it stands to its fleet, where it is in one; see the manual.",
        },
        "verdict": {"enum": list(VERDICTS), "description": "How it does, of a second ago at most."},
        "cause": {"enum": list(CODES), "description": "The gravest that was found, if anything was; see the manual."},
        "ends": {"type": "string", "description": "What ends that, for people; empty: unknown."},
        "ends_in_s": {"type": ["number", "null"], "description": "When it ends by itself, if known."},
        "alarms": {
            "type": "array",
            "description": "What is broken at present: an invariant of the proxy, or its event loop was held.",
            "items": {
                "type": "object",
                "properties": {
                    "rule": {"type": "string", "description": "What doesn't hold, by its name in the manual."},
                    "text": {"type": "string", "description": "A sentence with the numbers."},
                },
                "required": ["rule", "text"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["status", "version", "uptime_s", "alarms", "verdict"],
    "additionalProperties": False,
}
_ROLES = re.compile(r":[a-z]+:`[~.]*([^`]+)`")
_FAILURES = {
    400: "The body isn't JSON, or the path is ambiguous.",
    401: "The token is missing or wrong.",
    403: "The API is off, the request comes from a web page, or a run may not do that; the text says which.",
    404: "Not found.",
    413: "The body is too large.",
    421: "The Host header isn't a name of this proxy.",
    409: "The request is as described, but contradicts the proxy's state; the text says how.",
    422: "The request isn't as described; the text says why, and what would be right.",
}


@cache
def description() -> bytes:
    """Return the description as JSON."""
    paths: dict[str, Any] = {}
    for each in ENDPOINTS:
        paths.setdefault(PREFIX + each.path, {})[each.method.lower()] = _operation(each)
    own = {"summary": "This description.", "security": [], "operationId": "openapi"}
    health = {"summary": "How the proxy is, without a token.", "security": [], "operationId": "health"}
    paths["/_health"] = {"get": {**health, "responses": {"200": _answer("As JSON.", _HEALTH)}}}
    paths[PATH] = {"get": {**own, "responses": {"200": _answer("OpenAPI 3.1.", {"type": "object"})}}}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "HiveMind control API", "version": __version__, "description": DESCRIPTION},
            "security": [{"token": []}],
            "paths": paths,
            "components": {
                "schemas": dict(sorted(_schemas().items())),
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    failures = {401, 403, 409, 422} | ({400, 413} if endpoint.method == "POST" else set())
    failures |= {400, 404} if "{" in endpoint.path else set()
    made: dict[str, Any] = {
        "operationId": "_".join((endpoint.method.lower(), *re.findall(r"\w+", endpoint.path))),
        "summary": endpoint.summary,
        "responses": {
            "200": _answer("Done." if endpoint.method == "POST" else "OK", _named(endpoint.gives)),
            **{str(status): _answer(_FAILURES[status], _named(ErrorBody)) for status in sorted(failures)},
        },
    }
    named = re.findall(r"{(\w+)}", endpoint.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": _SEGMENTS[name]} for name in named]
    if endpoint.method == "GET" and not named:
        parameters += list(_query(endpoint.takes))
    if parameters:
        made["parameters"] = parameters
    if endpoint.method == "POST":
        made["requestBody"] = {"required": True, "content": _json(_named(endpoint.takes))}
    return made


def _query(takes: type[Any]) -> Iterator[dict[str, Any]]:
    if takes is NoInput:
        return
    (schema,) = _made((takes,)).values()
    for name, each in schema["properties"].items():
        options = [option for option in each.pop("anyOf", ()) if option != _NULL]
        about = {"description": each.pop("description")} if "description" in each else {}
        default = each.get("default")
        # A query has no null: a parameter that is left out means it.
        schema = {**(options[0] if options else each), **({} if default is None else {"default": default})}
        yield {"name": name, "in": "query", "required": False, **about, "schema": schema}


def _answer(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": _json(schema)}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _named(made: type[Any]) -> dict[str, Any]:
    return {"$ref": _REF + made.__name__}


# --- Schemas ----------------------------------------------------------------------------------------------------------


def _schemas() -> dict[str, Any]:
    """Return the schema of every type by its name. Input takes no other fields."""
    numbered = _made(tuple(each.gives for each in ENDPOINTS if not each.named))
    taken = (*(each.takes for each in ENDPOINTS if each.method == "POST"), *COMMANDS.values())
    by_name = _made((*taken, *(each.gives for each in ENDPOINTS if each.named), ErrorBody))
    for name in _reached(by_name, {made.__name__ for made in taken}):
        by_name[name]["additionalProperties"] = False
    by_name["Tune"]["anyOf"] = [
        {"properties": {"knob": {"const": each.name}, "value": _range(each)}} for each in KNOBS.values()
    ]
    by_name["SetBudget"]["anyOf"] = [  # of the pool, it is known what it covers
        {"properties": {"agent": {"type": "string"}}},
        {"properties": {"covers": {"type": "null"}}},
    ]
    by_name["KnobValues"]["properties"]["values"] = {
        "type": "object",
        "properties": {each.name: _range(each) for each in KNOBS.values()},
        "additionalProperties": False,
    }
    text = msgspec.json.encode(by_name).decode().replace(f'"{_REF}Priority"', f'"{_REF}PriorityName"')
    by_name = msgspec.json.decode(text)
    by_name.pop("Priority", None)
    names = [each.name.lower() for each in Priority]
    by_name["PriorityName"] = {"description": "The priority.", "enum": names, "type": "string"}
    for schema in by_name.values():
        for each in schema.get("properties", {}).values():
            if "PriorityName" in str(each) and isinstance(each.get("default"), int):
                each["default"] = Priority(each["default"]).name.lower()
    by_name["CommandRequest"] = _command_request()
    return {**numbered, **by_name}


def _made(types: tuple[type[Any], ...]) -> dict[str, Any]:
    """Return the schemas of types and all types inside them, with descriptions from the source."""
    _, made = msgspec.json.schema_components(types, ref_template=_REF + "{name}")
    found = {each.__name__: each for each in _held(types)}
    for name, schema in made.items():
        schema.pop("title", None)
        if "description" in schema:
            schema["description"] = _plain(schema["description"])
        for field, each in schema.get("properties", {}).items():
            text = _plain(described(found[name], field)) if name in found else ""
            each = _even(_limited(each, _LIMITS.get(name, {}).get(field, {})))
            plain = {"anyOf": [each, {"type": "null"}]} if field in _UNLIMITED.get(name, ()) else each
            schema["properties"][field] = {**plain, "description": text} if text else plain
    return made


def _limited(schema: dict[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field with limits, which null isn't subject to."""
    if "anyOf" not in schema:
        return {**schema, **limits}
    return {**schema, "anyOf": [each if each == _NULL else {**each, **limits} for each in schema["anyOf"]]}


def _even(schema: Any) -> Any:
    """Return the schema with tuples of one type as lists, which more programs understand than `prefixItems`."""
    if isinstance(schema, list):
        return [_even(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _even(each) for key, each in schema.items()}
    first, *rest = made.get("prefixItems", [None])
    if rest and all(each == first for each in rest):
        made["items"] = first
        del made["prefixItems"]
    return made


def _range(knob: Knob) -> dict[str, Any]:
    limits = {"type": "integer" if knob.whole else "number", "minimum": knob.lowest, "maximum": knob.highest}
    return {**limits, "minimum": 0} if knob.zero_is_none else limits  # all of these have 1 as the lowest


def _held(types: tuple[type[Any], ...]) -> set[type[Any]]:
    """Return all records inside these types."""
    found: set[type[Any]] = set()
    left: list[Any] = list(types)
    while left:
        each = left.pop()
        left += getattr(each, "__args__", ())
        if isinstance(each, type) and names_of(each) is not None and each not in found:
            found.add(each)
            left += get_type_hints(each).values()
    return found


def _reached(schemas: dict[str, Any], names: set[str]) -> set[str]:
    """Return these objects and all objects inside them."""
    left, found = list(names), set()
    while left:
        name = left.pop()
        if name not in found and schemas[name].get("type") == "object":
            found.add(name)
            left += re.findall(rf'"{_REF}(\w+)"', msgspec.json.encode(schemas[name]).decode())
    return found


def _command_request() -> dict[str, Any]:
    """A command by name, each with its own arguments."""
    who = {"type": "string", **_WHO, "default": CommandRequest("").who, "description": described(CommandRequest, "who")}
    return {
        "description": inspect.getdoc(CommandRequest),
        "oneOf": [_one(name, made, who) for name, made in COMMANDS.items()],
    }


def _one(name: str, made: type[Any], who: dict[str, Any]) -> dict[str, Any]:
    needed = bool(required_of(made))
    return {
        "title": name,
        "description": _plain(inspect.getdoc(made) or ""),
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": _named(made), "who": who},
        "required": ["name", "arguments"] if needed else ["name"],
        "additionalProperties": False,
    }


def _plain(text: str) -> str:
    """Return a docstring with JSON's terms and without Sphinx roles."""
    said = _ROLES.sub(lambda found: f"`{found[1].rpartition('.')[2]}`", " ".join(text.split()))
    return re.sub(r"\bNone\b|`inf`", "null", said)
