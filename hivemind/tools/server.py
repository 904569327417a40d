"""The tools as an MCP server of the official SDK. Only this module imports the SDK, and it is imported on demand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal, get_args

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
from pydantic import ValidationError

from hivemind import __version__
from hivemind.redaction.text import redact
from hivemind.scheduler.commands import Rejected
from hivemind.tools.access import Caller, ProxyAccess, Unavailable
from hivemind.tools.errors import ToolError, invalid_arguments, unknown
from hivemind.tools.http import BODY_LIMIT, CALLER
from hivemind.tools.instructions import INSTRUCTIONS
from hivemind.tools.registry import TOOLS, Tool, find
from hivemind.tools.schema import schema_of

Context = ServerRequestContext[dict[str, Any], Any]

NameStyle = Literal["dots", "underscores"]
_DEFAULT_NAMES: NameStyle = "dots"

_log = logging.getLogger(__name__)


def make_server(proxy: ProxyAccess, caller: Callable[[Context], Caller]) -> Server[dict[str, Any]]:
    """Return an MCP server whose tools use this proxy; `caller` names the caller of a request."""
    logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every request
    lists = {style: ListToolsResult(tools=[_listed(tool, style) for tool in TOOLS]) for style in get_args(NameStyle)}

    async def listed(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        try:
            style = (await proxy.about()).tool_names
        except (Unavailable, Rejected):
            style = _DEFAULT_NAMES  # clients list tools once, maybe before the proxy runs
        return lists.get(style, lists[_DEFAULT_NAMES])

    async def call(context: Context, params: CallToolRequestParams) -> CallToolResult:
        return await call_tool(proxy, caller(context), params.name, params.arguments or {})

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
            raise unknown("tool", name, [each.name(_DEFAULT_NAMES) for each in TOOLS])
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


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=redact(text, None))], is_error=True)


def _listed(tool: Tool, style: str) -> Listed:
    return Listed(
        name=tool.name(style),
        title=tool.title,
        description=tool.description,
        input_schema=schema_of(tool.takes),
        output_schema=schema_of(tool.gives),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


def http_manager(proxy: ProxyAccess) -> StreamableHTTPSessionManager:
    """Return what serves a proxy's tools over HTTP.

    Stateless, because no tool sends anything between calls: clients survive a restart of the proxy.
    """

    def caller(context: Context) -> Caller:
        assert context.request is not None, "every message comes with a request"
        found: Caller = context.request.scope[CALLER]
        return found

    server = make_server(proxy, caller)
    return StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=BODY_LIMIT)


async def serve_stdio(proxy: ProxyAccess, caller: Caller) -> None:
    """Serve one client on standard input and output until it closes them."""
    server = make_server(proxy, lambda _: caller)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
    await asyncio.sleep(0)
