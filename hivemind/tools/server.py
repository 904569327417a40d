"""The tools as an MCP server of the official SDK. Nothing else imports the SDK, and nothing imports this at a start."""

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
from hivemind.tools.desk import Caller, Desk, Unavailable
from hivemind.tools.failure import ToolFailure, mistakes, unknown
from hivemind.tools.http import BODY_LIMIT, CALLER
from hivemind.tools.schema import schema_of
from hivemind.tools.table import TOOLS, Tool, find
from hivemind.tools.teach import INSTRUCTIONS

Context = ServerRequestContext[dict[str, Any], Any]

NameStyle = Literal["dots", "underscores"]
_DEFAULT_NAMES: NameStyle = "dots"

_log = logging.getLogger(__name__)


def make_server(desk: Desk, caller: Callable[[Context], Caller]) -> Server[dict[str, Any]]:
    """An MCP server whose tools work on this desk; `caller` tells who asks."""
    logging.getLogger("mcp").setLevel(logging.WARNING)  # it tells of every request
    lists = {style: ListToolsResult(tools=[_listed(tool, style) for tool in TOOLS]) for style in get_args(NameStyle)}

    async def listed(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        try:
            style = (await desk.about()).tool_names
        except (Unavailable, Rejected):
            style = _DEFAULT_NAMES  # a client asks once, maybe before the proxy is there
        return lists.get(style, lists[_DEFAULT_NAMES])

    async def call(context: Context, params: CallToolRequestParams) -> CallToolResult:
        return await called(desk, caller(context), params.name, params.arguments or {})

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


async def called(desk: Desk, caller: Caller, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Carry a call out; whatever is wrong with it is an answer that a model can act on."""
    tool = find(name)
    try:
        if tool is None:
            raise unknown("tool", name, [each.name(_DEFAULT_NAMES) for each in TOOLS])
        try:
            asked = tool.takes.model_validate(arguments)
        except ValidationError as error:
            raise mistakes(error, tool.takes) from None
        answer = await tool.run(desk, caller, asked)
    except (ToolFailure, Rejected, Unavailable) as error:
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


def http_manager(desk: Desk) -> StreamableHTTPSessionManager:
    """What serves a desk over HTTP.

    Without sessions: no tool has anything to say between calls, so a client isn't lost when the proxy is restarted, and
    nothing is left of one that went without a word.
    """

    def caller(context: Context) -> Caller:
        assert context.request is not None, "every message came with a request"
        found: Caller = context.request.scope[CALLER]
        return found

    server = make_server(desk, caller)
    return StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=BODY_LIMIT)


async def serve_stdio(desk: Desk, caller: Caller) -> None:
    """Serve one client on standard input and output until it closes them."""
    server = make_server(desk, lambda _: caller)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
    await asyncio.sleep(0)
