"""The tools as an MCP server of the official SDK. Only this module imports the SDK, and it is imported on demand.

`python -m hivemind.tools.server` writes anew what is answered without it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as Listed
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from hivemind import __version__
from hivemind.control.controlled import ControlledProxy
from hivemind.control.run_access import RunAccess
from hivemind.redaction.text import redact
from hivemind.scheduler.commands import Rejected
from hivemind.tools import proxy_tools, task_tools
from hivemind.tools.access import Caller, LocalAccess, ProxyAccess, Unavailable
from hivemind.tools.http import BODY_LIMIT, CALLER
from hivemind.tools.stdio import HANDSHAKE, StdioFront
from hivemind.tools.tool import PREFIX, Tool, ToolError, invalid_arguments, unknown

Context = ServerRequestContext[dict[str, Any], Any]

TOOLS = (
    task_tools.submit,
    task_tools.batch,
    proxy_tools.status,
    proxy_tools.priority,
    proxy_tools.budget,
    proxy_tools.metrics,
    proxy_tools.config,
    proxy_tools.setup,
)
INSTRUCTIONS = """\
HiveMind is the proxy that this machine's agents send their LLM requests through. It queues, retries and paces them, so\
 that many agents share one rate limit. These tools let you see how much room there is, and plan within it.

Before you fan out (start sub-agents, or many requests at once), call hm.status: headroom.agents_now says how many more\
 agents can work at once now, headroom.advice why. Start no more than that; the others would only wait, and an agent\
 that waits does nothing for you. Call it again after each step rather than starting everything at the beginning. If\
 there is no room, go on alone or ask again in a minute. Check hm.budget too: what you start may be charged to your own\
 budget (covers subtree) and always is to the pool's; headroom.budget_tokens_left is what the tightest of them leaves.\
 hm.status is a summary; with limit it lists lanes, agents and tasks.

A slow answer means that you wait in the queue; you needn't send it again, and neither need you retry errors, the proxy\
 does. A 400 whose text begins with HiveMind is a decision, not a fault: a budget is used up, an operator stopped the\
 agent, or its task can't start. Trying again can't help. Report where you stand, and ask whoever you work for to raise\
 the budget or to let the agent go on; it can then continue where it was. An agent that hivemind run started can't do\
 that itself: it may lower, pause and stop itself and what it started, and set limits of what it starts.

Tasks: hm.batch adds a graph of tasks, all or none; after names what must be done before. A task is waiting, ready,\
 running, then done, failed, cancelled or skipped; if one fails, those that wait for it are blocked until it is tried\
 again (hm.submit with outcome retry). Tasks with a command are started by a runner (hivemind batch). Without one, the\
 agent that the task names works on it, its requests are held until the task is ready, and whoever did the work\
 reports it: hm.submit with outcome done or failed. Tasks that others wait for inherit their priority.

The tools may be listed as hm.status or hm_status; both names work. hm.priority, hm.budget and hm.config change the\
 proxy for everyone: use them when you were asked to. If they are read-only, they say so."""

_log = logging.getLogger(__name__)


def make_server(access: Callable[[Context], tuple[ProxyAccess, Caller]]) -> Server[dict[str, Any]]:
    """Return an MCP server; `access` tells for a request which proxy the tools use, and who calls them."""
    logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every request
    tools = ListToolsResult(tools=[_listed(tool) for tool in TOOLS])

    async def listed(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return tools

    async def call(context: Context, params: CallToolRequestParams) -> CallToolResult:
        return await call_tool(*access(context), params.name, params.arguments or {})

    server: Server[dict[str, Any]] = Server(
        "hivemind",
        version=__version__,
        title="HiveMind",
        description="Scheduler of LLM agents' requests: headroom, tasks, budgets, priorities.",
        instructions=INSTRUCTIONS,
        on_list_tools=listed,
        on_call_tool=call,
    )
    server.middleware.clear()  # spans that nobody collects
    return server


async def call_tool(proxy: ProxyAccess, caller: Caller, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Call a tool; errors are answers that a model can act on."""
    tool = find(name)
    try:
        if tool is None:
            raise unknown("tool", name, [each.name for each in TOOLS])
        try:
            args = tool.takes.model_validate(arguments)
        except ValidationError as error:
            raise invalid_arguments(error, tool.takes) from None
        answer = await tool.run(proxy, caller, args)
    except (ToolError, Rejected, Unavailable) as error:
        return _failed(str(error))
    except Exception:
        _log.exception("%s failed", name[:80])
        return _failed(f"{name} failed, which is a fault of HiveMind's own; its log says more")
    structured = answer.model_dump(mode="json", exclude_none=True)
    text = answer.model_dump_json(exclude_none=True)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def find(name: str) -> Tool | None:
    """Return the tool of that name. Clients rewrite dots, so both spellings are understood."""
    if not name.startswith((f"{PREFIX}.", f"{PREFIX}_")):
        return None
    return next((tool for tool in TOOLS if tool.verb == name[len(PREFIX) + 1 :]), None)


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=redact(text, None))], is_error=True)


def _listed(tool: Tool) -> Listed:
    """Return the tool for a list, which every conversation pays for: without what clients assume or do without."""
    hints = ToolAnnotations(read_only_hint=True) if tool.read_only else None
    if hints is None and not tool.destructive:
        hints = ToolAnnotations(destructive_hint=False)
    return Listed(name=tool.name, description=tool.description, input_schema=schema_of(tool.takes), annotations=hints)


_CHECKED_LATER = frozenset(
    {"default", "additionalProperties", "maxLength", "minimum", "maximum", "exclusiveMinimum", "maxItems"}
)
"""Parts of a schema that are left out of lists: who doesn't keep to them is told."""


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return a schema that every client accepts: no references, no titles, and optional fields aren't nullable. Fields
    of objects within have no descriptions."""
    whole = model.model_json_schema()
    models = whole.pop("$defs", {})
    for each in (whole, *models.values()):
        each.pop("description", None)  # the docstring of the class
    for each in models.values():
        for field in each["properties"].values():
            field.pop("description", None)
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
    left_out = _CHECKED_LATER | {"title", "properties"}
    found = {key: _plain(value, models) for key, value in node.items() if key not in left_out}
    if "properties" in node:  # its keys are names of fields, one of which may be `title`
        found["properties"] = {name: _plain(each, models) for name, each in node["properties"].items()}
    return found


def http_manager(proxy: ControlledProxy) -> StreamableHTTPSessionManager:
    """Return what serves a proxy's tools over HTTP.

    Stateless, because no tool sends anything between calls: clients survive a restart of the proxy.
    """

    def access(context: Context) -> tuple[ProxyAccess, Caller]:
        assert context.request is not None, "every message comes with a request"
        caller: Caller = context.request.scope[CALLER]
        return LocalAccess(proxy if caller.run is None else RunAccess(proxy, caller.run)), caller

    server = make_server(access)
    return StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=BODY_LIMIT)


async def serve_stdio(proxy: ProxyAccess, caller: Caller, front: StdioFront) -> None:
    """Serve one client until it closes its end: all that its front doesn't answer."""
    server, wire = make_server(lambda _: (proxy, caller)), cast(Any, _Wire(front))
    async with stdio_server(wire, wire) as (read, write):
        await server.run(read, write, server.create_initialization_options())
    await asyncio.sleep(0)


class _Wire:
    """A front as the SDK reads and writes."""

    def __init__(self, front: StdioFront) -> None:
        self._front = front

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await asyncio.to_thread(self._front.line)) is not None:
            yield line.decode("utf-8", "replace")

    async def write(self, text: str) -> None:
        self._front.send(text.rstrip("\n"))

    async def flush(self) -> None:
        """It is on its way already."""


def handshake() -> dict[str, Any]:
    """Return what a front answers by itself (:data:`.stdio.HANDSHAKE`)."""
    server = make_server(lambda _: (cast(ProxyAccess, None), Caller()))
    made = server.create_initialization_options()
    tools = [_listed(tool).model_dump(mode="json", by_alias=True, exclude_none=True) for tool in TOOLS]
    return {
        "versions": list(HANDSHAKE_PROTOCOL_VERSIONS),
        "initialize": {
            "capabilities": made.capabilities.model_dump(mode="json", by_alias=True, include={"tools"}),
            "instructions": made.instructions,
        },
        "server": {"name": made.server_name, "title": made.title, "description": made.description},
        "tools": tools,
    }


if __name__ == "__main__":
    HANDSHAKE.write_text(json.dumps(handshake(), indent=1) + "\n", "utf-8")
