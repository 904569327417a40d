"""Client of the control API, with one-line errors.

The token is shown only on connections whose other end has proven that it knows it (:mod:`.proof`). Whatever listens
there: size and time of an answer are bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from hivemind import __version__
from hivemind import api_types as api
from hivemind.control.codec import UNREADABLE, decode_named, decode_snapshot, encode_named, to_plain
from hivemind.control.discovery import ProxyAddress, Token
from hivemind.control.exchange import MOST_BYTES
from hivemind.control.proof import LARGEST, Challenge, Unproven
from hivemind.control.rights import Denied
from hivemind.packing import decompressed
from hivemind.scheduler.commands import Command, Rejected
from hivemind.settings.write import Draft
from hivemind.upstream.transport import connecting
from hivemind.world.fleet import Fleet
from hivemind.world.snapshot import RequestDetail

T = TypeVar("T")
Decode = Callable[[bytes], T]

CONNECT_WITHIN_S = 3.0
ANSWER_WITHIN_S = 5.0
"""For each part of an answer."""
WHOLE_WITHIN_S = 20.0
_CONNECTIONS_TRIED = 10
"""Until one stays open after its proof; of many requests at once others may take it first."""


class _Http(httpx.AsyncClient):
    async def send(self, request: httpx.Request, **given: Any) -> httpx.Response:
        with connecting():
            return await super().send(request, **given)


def open_http(place: ProxyAddress) -> httpx.AsyncClient:
    """Return an HTTP client for a proxy at that address."""
    # Loading certificates takes a while, and is needless without TLS. A local address isn't reached through a proxy.
    return _Http(
        verify=place.url.startswith("https:"),
        trust_env=not place.local,
        timeout=httpx.Timeout(ANSWER_WITHIN_S, connect=CONNECT_WITHIN_S),
        limits=httpx.Limits(max_connections=100),  # all of which are kept, since each had to be proven
    )


class ControlError(Exception):
    """The proxy couldn't be reached, or the server isn't one; the text says why and what to do."""

    def __init__(self, why: str, *, sent: bool = False) -> None:
        super().__init__(why)
        self.sent = sent
        """The request may have been executed all the same."""


class ControlClient:
    """A proxy's control API.

    Every method raises ControlError, and Rejected with the proxy's own words where it refuses.
    """

    def __init__(self, url: str, token: Token, http: httpx.AsyncClient) -> None:
        self.url = url
        self._token = token
        self._http = http
        self._proven = False
        """The connections that are kept are; a new one isn't."""

    def renew_token(self) -> bool:
        """Read the token again, because a restarted proxy has a new one; return whether it changed."""
        before, self._token = self._token, self._token.again()
        return before != self._token

    async def world(self, run: str = "", after: float | None = None) -> api.SnapshotPart:
        """Return the snapshot, or what is new since a time of that run."""
        return await self._get(
            "/snapshot", decode_snapshot, {} if after is None else {"run": run, "after": repr(after)}
        )

    async def requests(self, run: str = "", since: int = 0) -> api.RequestsPart:
        """Return the requests that changed since a revision of that run, at most a page."""
        return await self._get("/requests", _decoder(api.RequestsPart), {"run": run, "since": str(since)})

    async def request(self, ticket: int) -> RequestDetail | None:
        """Return the details of a request; None: it isn't known."""
        try:
            return await self._get(f"/requests/{ticket}", _decoder(RequestDetail))
        except _Unknown:
            return None

    async def command(self, command: Command, who: str, *, anywhere: bool = False) -> api.CommandResult:
        """Execute a command; `anywhere` in the fleet its agent is."""
        order = api.CommandRequest(type(command).__name__, to_plain(command), who)
        return await self._post("/fleet/commands" if anywhere else "/commands", order, _decoder(api.CommandResult))

    async def about(self) -> api.About:
        """Return facts about the proxy."""
        return await self._get("/about", _decoder(api.About))

    async def fleet(self) -> Fleet:
        """Return the proxies that share a key with this one."""
        return await self._get("/fleet", _decoder(Fleet))

    async def fleet_agents(self) -> api.FleetAgents:
        """Return the agents of all of them."""
        return await self._get("/fleet/agents", _decoder(api.FleetAgents))

    async def tasks(self, batch: str | None = None, *, running: bool = False) -> api.TasksPart:
        """Return the tasks of a batch, or (None) all; `running`: only those that run."""
        query = ({} if batch is None else {"batch": batch}) | ({"running": "true"} if running else {})
        return await self._get("/tasks", _named_decoder(api.TasksPart), query)

    async def budgets(self) -> api.BudgetsPart:
        """Return what each agent used and may use."""
        return await self._get("/budgets", _named_decoder(api.BudgetsPart))

    async def claim(self, wanted: api.ClaimRequest) -> api.TaskClaim:
        """Start the next eligible task that has a command."""
        return await self._post("/tasks/claim", wanted, _named_decoder(api.TaskClaim))

    async def place(self, wanted: api.PlaceRequest) -> api.PlaceResponse:
        """Request a place for an agent's process; to be repeated every two seconds."""
        return await self._post("/places", wanted, _decoder(api.PlaceResponse))

    async def leave(self, ended: api.PlaceRelease) -> api.RunUsage:
        """Release the place of an agent's process, and return what it used in this run."""
        return await self._post("/places/leave", ended, _decoder(api.RunUsage))

    async def draft(self, values: Mapping[str, float]) -> Draft:
        """Draft the change of the proxy's settings file that writes these knobs."""
        found = await self._post("/settings/draft", api.KnobValues(values), _decoder(api.SettingsDraft))
        return Draft(Path(found.path), found.before, found.after)

    async def write(self, draft: Draft, who: str) -> None:
        """Write a draft to the proxy's settings file."""
        approval = api.DraftApproval(str(draft.path), draft.before, draft.after, who)
        await self._post("/settings/write", approval, _decoder(api.WrittenFile))

    async def _get(self, path: str, decode: Decode[T], query: Mapping[str, str] | None = None) -> T:
        return _read(await self._request("GET", path, params=query or {}), decode)

    async def _post(self, path: str, body: object, decode: Decode[T]) -> T:
        return _read(await self._request("POST", path, content=encode_named(body)), decode)

    async def _request(self, method: str, path: str, **given: Any) -> bytes:
        headers = {
            "authorization": f"Bearer {self._token.text}",
            "content-type": "application/json",
            "accept-encoding": "zstd",
        }
        for _ in range(_CONNECTIONS_TRIED):
            if not self._proven:
                await self._prove()
            extensions = {"trace": _refuse_new_connection}
            try:
                asked = self._answer(method, api.PREFIX + path, headers=headers, extensions=extensions, **given)
                async with asked as answer:
                    data = await _whole(answer, MOST_BYTES)
            except _NewConnection:
                self._proven = False
                continue
            if answer.status_code == 200:
                return data
            raise self._refused(answer, data)
        raise ControlError("what listens there closes each connection after one answer, so the token can't be sent")

    async def _prove(self) -> None:
        """Have the other end of a connection that will be kept prove that it knows the token. Raises: ControlError."""
        challenge = Challenge(self._token)
        async with self._answer("GET", challenge.target, sends_token=False) as answer:
            try:
                try:
                    body = await _whole(answer, LARGEST)
                except _NotOurs:
                    body = b""
                challenge.check(answer.status_code, body)
                self._proven = True
            except BaseException as error:
                stream = answer.extensions.get("network_stream")
                if stream is not None:  # so that it isn't kept
                    await stream.aclose()
                if isinstance(error, Unproven):
                    raise ControlError(str(error)) from None
                raise

    @contextlib.asynccontextmanager
    async def _answer(
        self, method: str, target: str, *, sends_token: bool = True, **given: Any
    ) -> AsyncIterator[httpx.Response]:
        """Yield the answer, of which only the head was read. Raises: ControlError, also for errors of the reader."""
        try:
            async with asyncio.timeout(WHOLE_WITHIN_S), self._http.stream(method, self.url + target, **given) as answer:
                yield answer
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, _NotOurs) as error:
            sent = sends_token and not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            raise ControlError(_why(error), sent=sent) from error

    def _refused(self, answer: httpx.Response, data: bytes) -> Exception:
        status, text = answer.status_code, ""
        with contextlib.suppress(*UNREADABLE):  # then the response isn't the proxy's
            text = msgspec.json.decode(data, type=api.ErrorBody).error
        if not text and status >= 500:
            return ControlError(f"it fails (status {status}); its log may say why", sent=True)
        if not text:
            return ControlError(f"what answers there isn't HiveMind's control API (status {status}); is the URL right?")
        if status == 401:
            return ControlError(f"it doesn't take the token from {self._token.origin}: {text}")
        if status == 404 and answer.request.url.path.rpartition("/")[2].isdigit():
            return _Unknown(text)
        if status == 403 and text != api.OFF:
            return Denied(text)
        return Rejected(text) if status in (409, 413, 422) else ControlError(text)


class _Unknown(Exception):
    """The request isn't known."""


class _NewConnection(Exception):
    """A request with the token would go over a connection whose other end has proven nothing yet."""


class _NotOurs(Exception):
    """The answer is none that a proxy gives."""


async def _refuse_new_connection(event: str, _: object) -> None:
    """Trace a request: see https://www.encode.io/httpcore/extensions/#trace. Raises: _NewConnection."""
    if ".connect_" in event and event.endswith(".started"):
        raise _NewConnection


async def _whole(answer: httpx.Response, most: int) -> bytes:
    """Return the body of an answer. Raises: _NotOurs: it is longer than `most`, or in an encoding not asked for."""
    body = bytearray()
    # Not aiter_raw, which gives the connection back before its answer was checked.
    assert isinstance(answer.stream, httpx.AsyncByteStream)
    async for part in answer.stream:
        body += part
        if len(body) > most:
            raise _NotOurs(f"its answer has more than {most:,} bytes")
    encoding = answer.headers.get("content-encoding", "identity")
    if encoding == "identity":
        return bytes(body)
    with contextlib.suppress(ValueError):
        if encoding == "zstd":
            return decompressed(bytes(body), most)
    raise _NotOurs("its answer can't be decompressed")


def _decoder(gives: type[T]) -> Decode[T]:
    return msgspec.json.Decoder(gives).decode


def _named_decoder(gives: type[T]) -> Decode[T]:
    return lambda data: decode_named(data, gives)


def _read(data: bytes, decode: Decode[T]) -> T:
    try:
        return decode(data)
    except UNREADABLE as error:
        raise ControlError(_other_version(data) or f"its answer can't be read: {error}", sent=True) from error


def _other_version(data: bytes) -> str:
    try:
        version = msgspec.json.decode(data).get("version")
    except (*UNREADABLE, AttributeError):
        return "what answers there isn't HiveMind's control API; is the URL right?"
    if not isinstance(version, str) or version == __version__:
        return ""
    return f"it is HiveMind {version[:20]} and this is {__version__}; use the same version on both sides"


def _why(error: Exception) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "nothing takes the connection; is it reachable from here?"
    if isinstance(error, httpx.TimeoutException):
        return f"no answer within {ANSWER_WITHIN_S:g} s"
    if isinstance(error, TimeoutError):
        return f"its answer wasn't whole after {WHOLE_WITHIN_S:g} s"
    if isinstance(error, _NotOurs):
        return str(error)
    if isinstance(error, httpx.ConnectError):
        return _why_not_connected(error)
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
        return "the connection broke off"
    return f"it can't be asked ({error})"


def _why_not_connected(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed ({cause.reason or cause})"
        if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED:
            return "nothing listens there; start the proxy"
        cause = cause.__cause__ or cause.__context__
    return f"it can't be reached ({error})"
