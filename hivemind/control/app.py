"""Routes that the proxy answers itself, on the same socket: `/_health`, `/_stats`, `/metrics`, and the control API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, Router

from hivemind import __version__
from hivemind.api_types import OFF, PREFIX
from hivemind.control import openapi, proof
from hivemind.control.api import routes
from hivemind.control.controlled import ControlledProxy
from hivemind.control.guard import METRICS, NO_PAGE, ControlGuard, failure
from hivemind.control.metrics import AGENTS_SHOWN, CONTENT_TYPES, OPEN_METRICS, rendered
from hivemind.text.humanise import listed
from hivemind.world.snapshot import Snapshot

_TURN_CHARS = 1 << 14
"""How much of a long page is written in one turn of the event loop; it takes well below a millisecond."""
_NO_NONCE = "nonce must be 64 hexadecimal digits, and run, if any, the part of a run's token before its last dot"


def control_app(proxy: ControlledProxy) -> Starlette:
    """Return the application for the paths of `is_own`.

    The agents' token must have been checked before, except for the paths of `guards_itself`.
    """

    async def health(_: Request) -> JSONResponse:
        # Public and polled often, so it makes a snapshot for its verdict once a second at most.
        mode, uptime_s, alarms = proxy.engine.health()
        # Without lanes and agents, since it needs no token; `hivemind status` names them.
        why = [{"rule": each.rule, "text": each.text} for each in alarms]
        health: dict[str, Any] = {"status": mode, "version": __version__, "uptime_s": round(uptime_s, 3), "alarms": why}
        if fleet := proxy.fleet_state():
            health["fleet"] = fleet
        found = proxy.verdict()
        health["verdict"] = found.state
        if found.cause is not None:  # by its code and its end, which name no agent and no lane
            health |= {"cause": found.cause.code, "ends": found.cause.ends, "ends_in_s": found.cause.ends_in_s}
        return JSONResponse(health)

    async def proven(request: Request) -> Any:
        key, query = proxy.control_key, request.query_params
        if key is None:
            return failure(403, OFF)
        nonce, public, run = query.get("nonce", ""), query.get("run", ""), key.noted or key.run
        try:
            if not proof.NONCE.fullmatch(nonce) or len(public) > proof.LONGEST_RUN:
                raise ValueError
            token = proxy.processes.runs.token_of(public) if public else key.token
        except ValueError:
            return failure(422, _NO_NONCE, bad_input=True)
        return JSONResponse(
            {"run": run, "proof": proof.proof(token, nonce, run), "api": proof.API},
            headers={"cache-control": "no-store"},
        )

    async def stats(_: Request) -> Response:
        return Response(await _in_turns(as_json(proxy.snapshot())), media_type="application/json")

    async def metrics(request: Request) -> Response:
        states = [task.state for task in proxy.processes.tasks(None)]
        form = OPEN_METRICS in request.headers.get("accept", "")
        page = rendered(proxy.snapshot(newest=AGENTS_SHOWN), states, len(asyncio.all_tasks()), open_metrics=form)
        headers = {"content-type": CONTENT_TYPES[form], "vary": "accept", "cache-control": "no-store"}
        return Response(await _in_turns(page), headers=headers)

    async def described(_: Request) -> Response:
        # Without a token: tools that read such descriptions have none.
        return Response(openapi.description(), media_type="application/json")

    guard = Middleware(ControlGuard, proxy)
    control = Mount(PREFIX, Router(routes(proxy), redirect_slashes=False), middleware=[guard])
    app = Starlette(
        routes=[
            Route("/_health", health),
            Route(proof.PATH, proven),
            Route("/_stats", stats),
            Route(METRICS, metrics),
            Route(openapi.PATH, described),
            control,
        ],
        exception_handlers={HTTPException: _not_found},
    )
    app.router.redirect_slashes = False
    return app


async def _not_found(request: Request, error: Exception) -> Any:
    assert isinstance(error, HTTPException)
    allowed = Headers(error.headers).get("allow")
    if allowed is None:
        return failure(error.status_code, NO_PAGE)
    text = f"{request.method} isn't allowed here, only {listed(sorted(allowed.split(', ')))}"
    return failure(error.status_code, text, {"allow": allowed})


async def _in_turns(pieces: Iterable[str]) -> str:
    made, size = [], 0
    for piece in pieces:
        made.append(piece)
        size += len(piece)
        if size > _TURN_CHARS:
            size = 0
            await asyncio.sleep(0)  # for streams to go on
    return "".join(made)


def as_json(snapshot: Snapshot) -> Iterator[str]:
    """Yield the snapshot as JSON in pieces; priorities are names, infinity is null."""
    before = "{"
    for name in snapshot.__struct_fields__:
        yield f'{before}"{name}":'
        before, value = ",", getattr(snapshot, name)
        if name in ("agents", "slots", "queue"):
            yield "["
            for number, view in enumerate(value):
                named = msgspec.to_builtins(view) | {"priority": view.priority.name.lower()}
                yield f"{',' if number else ''}{msgspec.json.encode(named).decode()}"
            yield "]"
        else:
            yield msgspec.json.encode(value).decode()
    yield "}"
