"""The desk of a proxy elsewhere, asked over its control API: found when needed, and anew when it was restarted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import httpx

from hivemind.api_types import About, TaskState
from hivemind.control.client import ControlClient, NoAnswer
from hivemind.control.find import Place, Token, find_token
from hivemind.errors import UsageError
from hivemind.scheduler.commands import Command
from hivemind.tools.desk import Unavailable
from hivemind.world.snapshot import Snapshot

T = TypeVar("T")


class There:
    """A :class:`~.desk.Desk`. The proxy needn't run yet, and may be another one the next time."""

    def __init__(
        self, place: Place, environ: Mapping[str, str], token_file: Path | None, http: httpx.AsyncClient
    ) -> None:
        self._place = place
        self._environ = environ
        self._token_file = token_file
        self._http = http
        self._token: Token | None = None
        self._known: tuple[str, float] | None = None
        """Run and moment of the last world that was heard of, so that not all of its history comes every time."""

    async def about(self) -> About:
        about = await self._asked(ControlClient.about)
        return replace(about, address=self._place.url)

    async def world(self) -> Snapshot:
        run, after = self._known or ("", None)
        part = await self._asked(lambda client: client.world(run, after))
        self._known = (part.run, part.snapshot.at)
        return part.snapshot

    async def tasks(self, batch: str | None = None) -> tuple[TaskState, ...]:
        return (await self._asked(lambda client: client.tasks(batch))).tasks

    async def order(self, command: Command, who: str) -> None:
        await self._asked(lambda client: client.command(command, who), twice=False)

    async def _asked(self, ask: Callable[[ControlClient], Awaitable[T]], *, twice: bool = True) -> T:
        """Ask, and once more where only the token was an old one; where it does no harm (`twice`) also where the answer
        is missing. Raises: Unavailable, Rejected."""
        before = self._token
        if before is not None:
            try:
                return await ask(self._client(before))
            except NoAnswer as error:
                self._token = None
                if error.sent and not twice:
                    raise Unavailable(self._lost(error)) from error
        try:
            found = find_token(self._place, self._environ, self._token_file)
        except UsageError as error:
            raise Unavailable(f"no HiveMind proxy can be asked: {error}{self._start()}") from None
        try:
            answer = await ask(self._client(found))
        except NoAnswer as error:
            raise Unavailable(self._lost(error)) from error
        self._token = found
        return answer

    def _client(self, token: Token) -> ControlClient:
        return ControlClient(self._place.url, token, self._http)

    def _lost(self, error: NoAnswer) -> str:
        if error.sent:
            return (
                f"the HiveMind proxy at {self._place.url} didn't answer ({error}); what was asked for may be done"
                " all the same, so look before you ask again"
            )
        return f"the HiveMind proxy at {self._place.url} can't be asked: {error}{self._start()}"

    def _start(self) -> str:
        if not self._place.local:
            return ""
        return ". To start it: hivemind proxy --upstream https://api.anthropic.com (or hivemind-tui, with a screen)"
