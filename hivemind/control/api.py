"""The control API's endpoints, and what they do."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from hivemind import __version__
from hivemind import api_types as api
from hivemind.agent_names import same
from hivemind.control.codec import encode_named, snapshot_part, to_plain
from hivemind.control.controlled import ControlledProxy
from hivemind.control.guard import NO_PAGE, PRINCIPAL, Reply, failure, reply
from hivemind.control.parsing import checked_who, command_from, parse_as, shown
from hivemind.control.rights import OPERATOR, Denied, Principal
from hivemind.control.run_access import RunAccess
from hivemind.scheduler.commands import Command, Conflict, Rejected
from hivemind.settings import write as settings_write
from hivemind.store import checkpoints as checkpoint_store
from hivemind.world.fleet import Fleet
from hivemind.world.snapshot import RequestDetail

_log = logging.getLogger(__name__)

_BODY_LIMIT = 64 << 10
_GRAPH_LIMIT = 4 << 20
_FILE_LIMIT = 1 << 20
_DRAFTS_KEPT = 16
TICKET = re.compile(r"[0-9]{1,15}")
_STATUS = {Conflict: 409, Denied: 403}


class _Failed(Exception):
    """The endpoint answers with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(slots=True)
class Endpoint:
    """An endpoint. Its input and output are those of the method that answers."""

    method: str
    path: str
    """After :data:`hivemind.api_types.PREFIX`."""
    summary: str
    answer: Callable[[Control, Any], Awaitable[Any]]
    limit: int = _BODY_LIMIT
    named: bool = True
    """Priorities in the response are names; else numbers (:mod:`.codec`)."""
    long: bool = False
    """The response may be long, so it is encoded in a thread."""
    takes: type[Any] = field(init=False)
    """Type of a GET's query or a POST's JSON body; `str` of a path parameter."""
    gives: type[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.takes, self.gives = get_type_hints(self.answer).values()


class Control:
    """The endpoints' functions on a proxy, for the operator or, with `run`, for a run of that agent."""

    def __init__(self, proxy: ControlledProxy, run: str | None = None) -> None:
        self._as_run = None if run is None else RunAccess(proxy, run)
        self._proxy: ControlledProxy = proxy if self._as_run is None else self._as_run
        self._drafts: deque[settings_write.Draft] = deque(maxlen=_DRAFTS_KEPT)

    def of(self, run: str) -> Control:
        """Return the functions for a run."""
        return Control(self._proxy, run)

    @property
    def _run(self) -> str:
        assert self._proxy.control_key is not None, "the guard lets no request in without a key"
        return self._proxy.control_key.run

    async def world(self, query: api.SnapshotQuery) -> api.SnapshotPart:
        return snapshot_part(self._proxy.snapshot(), self._run, query.after if query.run == self._run else None)

    async def requests(self, query: api.RequestsQuery) -> api.RequestsPart:
        if query.since < 0:
            raise Rejected(f"since {query.since}: must be 0 or more")
        found = self._proxy.engine.requests(query.since if query.run == self._run else 0)
        return api.RequestsPart(self._run, __version__, found.revision, found.oldest, found.changed)

    async def request(self, ticket: str) -> RequestDetail:
        if not TICKET.fullmatch(ticket):
            raise _Failed(404, NO_PAGE)
        found = self._proxy.detail(int(ticket))
        if found is None:
            raise _Failed(404, f"no request {ticket}, or it is too old")
        return found

    async def command(self, order: api.CommandRequest) -> api.CommandResult:
        command, who = command_from(order.name, order.arguments), checked_who(order.who)
        self._proxy.apply(command, who)
        return await self._result(order.name, command, who)

    async def _result(self, name: str, command: Command, who: str) -> api.CommandResult:
        await self._proxy.engine.settled()  # what the response reports must survive a crash
        return api.CommandResult(name, to_plain(command), who)

    async def fleet(self, _: api.NoInput) -> Fleet:
        return await self._proxy.fleet()

    async def fleet_agents(self, _: api.NoInput) -> api.FleetAgents:
        return api.FleetAgents(self._run, self._proxy.fleet_agents())

    async def fleet_command(self, order: api.CommandRequest) -> api.CommandResult:
        command, who = command_from(order.name, order.arguments), checked_who(order.who)
        await self._proxy.apply_anywhere(command, who)
        return await self._result(order.name, command, who)

    async def about(self, _: api.NoInput) -> api.About:
        return self._proxy.about()

    async def tasks(self, query: api.TasksQuery) -> api.TasksPart:
        return api.TasksPart(self._run, self._proxy.processes.tasks(query.batch, running=query.running))

    async def claim(self, wanted: api.ClaimRequest) -> api.TaskClaim:
        given = self._proxy.processes.claim(wanted, checked_who(wanted.who))
        await self._proxy.engine.settled()
        return given

    async def place(self, wanted: api.PlaceRequest) -> api.PlaceResponse:
        given = self._proxy.processes.place(wanted, checked_who(wanted.who))
        if given.granted and not wanted.running:
            await self._proxy.engine.settled()  # the next proxy must know a process that starts
        return given

    async def leave(self, ended: api.PlaceRelease) -> api.RunUsage:
        return await self._proxy.leave(ended, checked_who(ended.who))

    async def budgets(self, query: api.AgentQuery) -> api.BudgetsPart:
        return self._proxy.budgets(query.agent)

    async def checkpoints(self, query: api.AgentQuery) -> api.CheckpointsPart:
        found, unreadable = await self._kept()
        mine = (each.checkpoint for each in found if query.agent is None or same(query.agent, each.checkpoint.agent))
        if self._as_run is not None:
            own = self._as_run.owns_checkpoint
            return api.CheckpointsPart(tuple(each for each in mine if own(each.agent, each.parent)), ())
        return api.CheckpointsPart(tuple(mine), tuple(unreadable))

    async def checkpoint(self, name: str) -> api.CheckpointDetail:
        kept = checkpoint_store.latest((await self._kept())[0], name)
        if kept is None:
            raise _Failed(404, f"no checkpoint {shown(name)}, and none of an agent of that name")
        if self._as_run is not None:
            self._as_run.require_checkpoint(kept.checkpoint.agent, kept.checkpoint.parent)
        try:
            conversation = await asyncio.to_thread(checkpoint_store.conversation, kept)
        except OSError:
            raise _Failed(404, f"checkpoint {kept.checkpoint.name} was removed just now") from None
        except checkpoint_store.Unreadable as error:
            raise Conflict(str(error)) from None
        return api.CheckpointDetail(kept.checkpoint, None if conversation is None else msgspec.Raw(conversation))

    async def _kept(self) -> tuple[list[checkpoint_store.Found], list[str]]:
        if self._proxy.checkpoints is None:
            return [], []
        try:
            return await asyncio.to_thread(checkpoint_store.listed, self._proxy.checkpoints)
        except OSError as error:
            raise Conflict(f"{error.filename}: can't be read ({error.strerror})") from None

    async def draft(self, knobs: api.KnobValues) -> api.SettingsDraft:
        if self._proxy.settings_file is None:
            raise Conflict("this proxy was started without a settings file to write to")
        drafted = await asyncio.to_thread(settings_write.draft, self._proxy.settings_file, knobs.values)
        self._drafts.append(drafted)
        return api.SettingsDraft(str(drafted.path), drafted.before, drafted.after)

    async def write(self, wanted: api.DraftApproval) -> api.WrittenFile:
        """Write a draft of this proxy only: the token allows changing knobs, not writing any file."""
        who, same = checked_who(wanted.who), (wanted.path, wanted.before, wanted.after)
        found = next((each for each in self._drafts if (str(each.path), each.before, each.after) == same), None)
        if self._proxy.settings_file is None or found is None:
            raise Conflict(f"{wanted.path}: this isn't one of the proxy's latest drafts; look at the difference again")
        await asyncio.to_thread(settings_write.write, found)
        _log.info("%s wrote %s", who, found.path)
        return api.WrittenFile(wanted.path)


ENDPOINTS = (
    Endpoint("GET", "/about", "Facts about the proxy.", Control.about),
    Endpoint("GET", "/snapshot", "The snapshot, or what is new.", Control.world, named=False, long=True),
    Endpoint("GET", "/requests", "Requests that changed.", Control.requests, named=False),
    Endpoint("GET", "/requests/{ticket}", "The details of a request.", Control.request, named=False),
    Endpoint("POST", "/commands", "Execute a command.", Control.command, _GRAPH_LIMIT),
    Endpoint("GET", "/fleet", "The proxies that share a key with this one.", Control.fleet),
    Endpoint("GET", "/fleet/agents", "The agents of all of them.", Control.fleet_agents, named=False),
    Endpoint("POST", "/fleet/commands", "Execute a command where its agent is.", Control.fleet_command, _GRAPH_LIMIT),
    Endpoint("GET", "/budgets", "All budgets with their usage.", Control.budgets, long=True),
    Endpoint("GET", "/tasks", "The list of tasks.", Control.tasks, long=True),
    Endpoint("POST", "/tasks/claim", "Start the next eligible task.", Control.claim),
    Endpoint("POST", "/places", "Request a place for an agent's process.", Control.place, _GRAPH_LIMIT),
    Endpoint("POST", "/places/leave", "Release a place.", Control.leave),
    Endpoint("GET", "/checkpoints", "Checkpoints of agents.", Control.checkpoints),
    Endpoint("GET", "/checkpoints/{name}", "A checkpoint, or an agent's latest.", Control.checkpoint),
    Endpoint("POST", "/settings/draft", "Draft a change of the settings file.", Control.draft),
    Endpoint("POST", "/settings/write", "Write a draft.", Control.write, _FILE_LIMIT),
)


def routes(proxy: ControlledProxy) -> list[Route]:
    """Return the routes, to be mounted under :data:`hivemind.api_types.PREFIX`, behind a guard."""
    control = Control(proxy)
    return [Route(each.path, _served(each, control), methods=[each.method]) for each in ENDPOINTS]


def _served(endpoint: Endpoint, control: Control) -> Callable[[Request], Awaitable[Reply]]:
    async def serve(request: Request) -> Reply:
        try:
            given = await endpoint.answer(_for(control, request), await _input(endpoint, request))
            encode = encode_named if endpoint.named else msgspec.json.encode
            if endpoint.long:
                return await asyncio.to_thread(lambda: reply(encode(given), request.headers))
            return reply(encode(given), request.headers)
        except Rejected as error:
            status = next((_STATUS[kind] for kind in _STATUS if isinstance(error, kind)), 422)
            return failure(status, str(error), bad_input=error.bad_input)
        except _Failed as error:
            return failure(error.status, str(error))
        except ClientDisconnect:
            return failure(499, "the client left")

    return serve


def _for(control: Control, request: Request) -> Control:
    """Return the functions for whoever sent the request."""
    principal: Principal = request.scope.get(PRINCIPAL, OPERATOR)
    return control if principal.run is None else control.of(principal.run)


async def _input(endpoint: Endpoint, request: Request) -> Any:
    if request.path_params:
        return next(iter(request.path_params.values()))
    if endpoint.method == "GET":
        query, of = request.query_params, f"{api.PREFIX}{endpoint.path}"
        if len(query.multi_items()) > len(query):
            raise Rejected(f"{of}: a parameter is given more than once")
        return parse_as(endpoint.takes, dict(query), of, strict=False)
    body = await _body(request, endpoint.limit)
    try:
        values = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _Failed(400, f"the body isn't JSON: {error}") from None
    except RecursionError:
        raise _Failed(400, "the body is nested too deeply") from None
    return parse_as(endpoint.takes, values, "the body")


async def _body(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > limit:
            raise _Failed(413, f"the body is larger than {limit >> 10} KiB")
    return b"".join(parts)
