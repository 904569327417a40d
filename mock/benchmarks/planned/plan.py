"""A plan: what the mock answers in each turn of a conversation, so that real clients call their tools.

The plan is a list of steps. A conversation with as many results of tools as there are steps before one is answered with
that step; after the last step, and where the client offers no tool for one, it is answered with text. So each client
goes through the plan at its own pace, and a conversation that is resumed continues where it was.

    Step(run="echo hello > file.txt")  # its tool for shell commands
    Step(agent="count the files", kind="general-purpose")  # its tool for sub-agents, of a type for those that want one
    Step(tool="Read", arguments={"file_path": "/tmp/x"})  # any tool, by its name
    Step(say="All done.")  # the text at the end
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from hivemind_mock.provider.formats.base import Body, ToolCall, objects, texts

_SHELL, _AGENT = re.compile(r"bash|shell|exec", re.IGNORECASE), re.compile(r"agent|task", re.IGNORECASE)
_COMMANDS, _PROMPTS = ("command", "cmd"), ("prompt", "message")
_KINDS = frozenset({"subagent_type", "agent_name", "agent_type"})
_FILLER = "as planned"
"""In place of every other text that a tool requires."""


class Tool(Struct, frozen=True):
    """A tool that a request offers."""

    name: str
    space: str
    """The namespace that it belongs to; empty: none."""
    properties: frozenset[str]
    """Names of its arguments."""
    required: tuple[str, ...]

    @classmethod
    def of(cls, name: object, schema: object, space: str = "") -> Tool:
        """Make it of a JSON schema of its arguments."""
        found = schema if isinstance(schema, Mapping) else {}
        return cls(str(name), space, frozenset(found.get("properties") or ()), tuple(found.get("required") or ()))


class Conversation(Struct, frozen=True):
    """What a plan needs to know of a request."""

    prompt: str = ""
    """All that the user says, without results of tools."""
    tools: tuple[Tool, ...] = ()
    results: int = 0
    """Results of tools in it."""


class Step(Struct, frozen=True):
    """One of `run`, `agent`, `tool` and `say`, by what isn't empty."""

    run: str = ""
    agent: str = ""
    kind: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] | None = None
    say: str = ""

    def call(self, tools: tuple[Tool, ...]) -> ToolCall | None:
        """Return the call of one of these tools that does it; None: none of them does."""
        if self.tool:
            found = next((tool for tool in tools if tool.name == self.tool), None)
            return None if found is None else ToolCall(found.name, found.space, dict(self.arguments or {}))
        text, names, field_names = (self.run, _SHELL, _COMMANDS) if self.run else (self.agent, _AGENT, _PROMPTS)
        for tool in tools:
            field = next((name for name in field_names if name in tool.properties), None)
            if field is not None and names.search(tool.name) and self._fits(tool):
                more = {name: self.kind if name in _KINDS else _FILLER for name in tool.required if name != field}
                if self.kind:
                    more |= {name: self.kind for name in _KINDS & tool.properties}
                return ToolCall(tool.name, tool.space, {field: text, **more})
        return None

    def _fits(self, tool: Tool) -> bool:
        """Whether a tool starts something, and doesn't talk to what was started."""
        return not (self.agent and {"to", "target", "id"} & tool.properties)


class Plan(Struct, frozen=True):
    """Steps in their order."""

    steps: tuple[Step, ...] = ()

    def answer(self, talk: Conversation) -> ToolCall | str:
        """Return the call to make in this conversation now, or the text to end it with; empty: any text."""
        text = next((step.say for step in self.steps if step.say), "")
        if any(step.agent and step.agent in talk.prompt for step in self.steps):
            return text  # a sub-agent's: it must not start another one for ever
        calls = [call for step in self.steps if not step.say and (call := step.call(talk.tools)) is not None]
        return calls[talk.results] if talk.results < len(calls) else text


# --- What requests say, by format ------------------------------------------------------------------------------------


def _anthropic(body: Body) -> Conversation:
    said = [each["content"] for each in objects(body.get("messages")) if each.get("role") == "user"]
    blocks = [block for content in said for block in objects(content)]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return Conversation(
        prompt=_text_in([each for each in said if isinstance(each, str)], [b for b in blocks if b not in results]),
        tools=tuple(Tool.of(each.get("name"), each.get("input_schema")) for each in objects(body.get("tools"))),
        results=len(results),
    )


def _chat(body: Body) -> Conversation:
    messages, tools = list(objects(body.get("messages"))), objects(body.get("tools"))
    functions = [each["function"] for each in tools if isinstance(each.get("function"), Mapping)]
    return Conversation(
        prompt=_text_in([each.get("content") for each in messages if each.get("role") == "user"]),
        tools=tuple(Tool.of(each.get("name"), each.get("parameters")) for each in functions),
        results=sum(each.get("role") == "tool" for each in messages),
    )


def _responses(body: Body) -> Conversation:
    items, given = list(objects(body.get("input"))), body.get("input")
    said = [each.get("content") for each in items if each.get("role") == "user"]
    tools = []
    for each in objects(body.get("tools")):
        if each.get("type") == "namespace":
            space = str(each.get("name", ""))
            tools += [Tool.of(one.get("name"), one.get("parameters"), space) for one in objects(each.get("tools"))]
        elif each.get("type") == "function":
            tools.append(Tool.of(each.get("name"), each.get("parameters")))
    return Conversation(
        prompt=_text_in(said, given if isinstance(given, str) else ""),
        tools=tuple(tools),
        results=sum(str(each.get("type")).endswith("_call_output") for each in items),
    )


def _google(body: Body) -> Conversation:
    contents = [each for each in objects(body.get("contents")) if each.get("role") != "model"]
    parts = [part for each in contents for part in objects(each.get("parts"))]
    declared = [one for each in objects(body.get("tools")) for one in objects(each.get("functionDeclarations"))]
    return Conversation(
        prompt=_text_in([part["text"] for part in parts if "text" in part]),
        tools=tuple(
            Tool.of(each.get("name"), each.get("parametersJsonSchema") or each.get("parameters")) for each in declared
        ),
        results=sum("functionResponse" in part for part in parts),
    )


CONVERSATIONS: Mapping[str, Callable[[Body], Conversation]] = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "google": _google,
}
"""By the format's name; others have no tools."""


def _text_in(*values: object) -> str:
    return "\n".join(text for value in values for text in texts(value))
