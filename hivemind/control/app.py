"""`/_health` and `/_stats`, beside the traffic on the same socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hivemind import __version__
from hivemind.scheduler.types import Priority
from hivemind.snapshot import Snapshot


def control_app(snapshot: Callable[[], Snapshot]) -> Starlette:
    """Routes under `/_`; whoever mounts it has checked the token."""

    async def health(_: Request) -> JSONResponse:
        world = snapshot()
        return JSONResponse({"status": world.mode, "version": __version__, "uptime_s": round(world.uptime_s, 3)})

    async def stats(_: Request) -> Response:
        return Response(msgspec.json.encode(as_json(snapshot())), media_type="application/json")

    return Starlette(routes=[Route("/_health", health), Route("/_stats", stats)])


def as_json(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot in plain types; priorities by name, no limit as null."""
    world: dict[str, Any] = msgspec.to_builtins(snapshot)
    for view in (*world["agents"], *world["slots"], *world["queue"]):
        view["priority"] = Priority(view["priority"]).name.lower()
    return world
