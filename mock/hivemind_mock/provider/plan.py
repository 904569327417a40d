"""A plan: what the mock answers in each turn of a conversation, so that real clients call their tools.

The plan is a list of steps. A conversation with as many results of tools as there are steps before one is answered with
that step; after the last step, and where the client offers no tool for one, it is answered with text. So each client
goes through the plan at its own pace, and a conversation that is resumed continues where it was.

    - run: echo hello > file.txt        # its tool for shell commands
    - agent: count the files            # its tool for sub-agents
      kind: general-purpose             # the sub-agent's type, for clients that want one
    - tool: Read                        # any tool, by its name
      arguments: {file_path: /tmp/x}
    - say: All done.                    # the text at the end
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from hivemind.errors import UsageError
from hivemind_mock.provider.formats.base import Conversation, Tool, ToolCall

_SHELL, _AGENT = re.compile(r"bash|shell|exec", re.IGNORECASE), re.compile(r"agent|task", re.IGNORECASE)
_COMMANDS, _PROMPTS = ("command", "cmd"), ("prompt", "message")
_KINDS = frozenset({"subagent_type", "agent_name", "agent_type"})
_FILLER = "as planned"
"""In place of every other text that a tool requires."""
_FORMS = {"run": {"run"}, "agent": {"agent", "kind"}, "tool": {"tool", "arguments"}, "say": {"say"}}
"""What a step has, by what it is, and may have."""


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


def read_plan(path: Path) -> Plan:
    """Read a plan, in YAML or JSON. Raises: UsageError: it can't be read, or isn't one."""
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"--plan {path}: {error.strerror}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise UsageError(f"--plan {path}: can't be read: {error}") from None
    if not isinstance(found, list):
        raise UsageError(f"--plan {path}: must be a list of steps")
    return Plan(tuple(_step(f"--plan {path}: step {number}", each) for number, each in enumerate(found, 1)))


def _step(where: str, found: object) -> Step:
    if not isinstance(found, dict) or not any(
        found.keys() >= {has} and found.keys() <= may for has, may in _FORMS.items()
    ):
        raise UsageError(f"{where} must have one of run, agent (and kind), tool (and arguments), say")
    texts = {name: value for name, value in found.items() if name != "arguments"}
    if not all(isinstance(value, str) and value for value in texts.values()):
        raise UsageError(f"{where}: {', '.join(texts)} must be text")
    if not isinstance(found.get("arguments", {}), dict):
        raise UsageError(f"{where}: arguments must be an object")
    return Step(**found)
