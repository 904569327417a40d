"""How a tool reaches its proxy, in this process or over the control API, and who calls the tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from hivemind.api_types import About, TaskState
from hivemind.control.discovery import ProxyAddress, connectable, find_token
from hivemind.control.parsing import WHO_LENGTH, checked_who
from hivemind.errors import UsageError
from hivemind.records import replace
from hivemind.scheduler.commands import Command, Rejected, TaskCommand
from hivemind.world.snapshot import Snapshot

if TYPE_CHECKING:
    import httpx

    from hivemind.control.client import ControlClient, ControlError
    from hivemind.control.controlled import ControlledProxy

T = TypeVar("T")

ANONYMOUS = "mcp"
"""Name in the proxy's log if the calling agent isn't known."""


class Unavailable(Exception):
    """No proxy could be reached; the text says why, and what to do."""


class ProxyAccess(Protocol):
    """A proxy as tools use it. Every method raises Unavailable if it can't be reached."""

    async def about(self) -> About:
        """Return facts about the proxy; its address is one that the caller can use."""

    async def world(self) -> Snapshot:
        """Return the current snapshot; curves and log lines may be missing."""

    async def tasks(self, batch: str | None = None) -> tuple[TaskState, ...]:
        """Return the tasks of a batch, or (None) all."""

    async def apply(self, command: Command, who: str) -> None:
        """Execute a command. Raises: Rejected: it can't be executed; the text says why."""


class Caller(Struct, frozen=True):
    """Who calls a tool."""

    agent: str | None = None
    run: str | None = None
    """The agent of the run whose rights it has; None: the operator's."""
    cwd: str = ""
    """The folder in which commands that it submits are started; empty: the runner's choice."""

    @property
    def who(self) -> str:
        """Its name in the proxy's log."""
        if self.agent is None:
            return ANONYMOUS
        try:
            return checked_who(f"{ANONYMOUS}:{self.agent}"[:WHO_LENGTH])
        except Rejected:  # the name looks like a key
            return ANONYMOUS


class LocalAccess:
    """Access to the proxy in this process, to be used on the proxy's event loop."""

    def __init__(self, proxy: ControlledProxy) -> None:
        self._proxy = proxy

    async def about(self) -> About:
        about = self._proxy.about()
        return replace(about, address=connectable(about.address))

    async def world(self) -> Snapshot:
        return self._proxy.snapshot()

    async def tasks(self, batch: str | None = None) -> tuple[TaskState, ...]:
        return self._proxy.processes.tasks(batch)

    async def apply(self, command: Command, who: str) -> None:
        self._proxy.apply(command, who)
        if isinstance(command, TaskCommand):
            await self._proxy.engine.settled()  # what the answer reports must survive a crash


class RemoteAccess:
    """A :class:`~.access.ProxyAccess`. The proxy needn't run yet, and may be restarted between calls."""

    def __init__(
        self, place: ProxyAddress, environ: Mapping[str, str], token_file: Path | None, http: httpx.AsyncClient
    ) -> None:
        self._place = place
        self._environ = environ
        self._token_file = token_file
        self._http = http
        self._client: ControlClient | None = None
        self._known: tuple[str, float] | None = None
        """Run and time of the last snapshot, so that only newer history is sent."""

    async def about(self) -> About:
        about = await self._request(lambda client: client.about())
        return replace(about, address=self._place.url)

    async def world(self) -> Snapshot:
        run, after = self._known or ("", None)
        part = await self._request(lambda client: client.world(run, after))
        self._known = (part.run, part.snapshot.at)
        return part.snapshot

    async def tasks(self, batch: str | None = None) -> tuple[TaskState, ...]:
        return (await self._request(lambda client: client.tasks(batch))).tasks

    async def apply(self, command: Command, who: str) -> None:
        await self._request(lambda client: client.command(command, who), repeatable=False)

    async def _request(self, send: Callable[[ControlClient], Awaitable[T]], *, repeatable: bool = True) -> T:
        """Send a request, and repeat it with a new token if the proxy refused the old one, or if the request is
        `repeatable` and was not answered. Raises: Unavailable, Rejected."""
        from hivemind.control.client import ControlClient, ControlError  # and with it httpx, which a proxy doesn't need

        if self._client is not None:
            try:
                return await send(self._client)
            except ControlError as error:
                self._client = None
                if error.sent and not repeatable:
                    raise Unavailable(self._lost(error)) from error
        try:
            found = find_token(self._place, self._environ, self._token_file)
        except UsageError as error:
            raise Unavailable(f"no HiveMind proxy can be reached: {error}{self._start()}") from None
        client = ControlClient(self._place.url, found, self._http)
        try:
            answer = await send(client)
        except ControlError as error:
            raise Unavailable(self._lost(error)) from error
        self._client = client
        return answer

    def _lost(self, error: ControlError) -> str:
        if error.sent:
            return (
                f"the HiveMind proxy at {self._place.url} didn't answer ({error}); the change may have been made"
                " all the same, so check before you repeat it"
            )
        return f"the HiveMind proxy at {self._place.url} can't be reached: {error}{self._start()}"

    def _start(self) -> str:
        if not self._place.local:
            return ""
        return ". To start it: hivemind proxy --upstream https://api.anthropic.com (or hivemind-tui, with a screen)"
