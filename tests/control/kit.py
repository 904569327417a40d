"""A proxy for the control API's tests: events make its world, and it remembers what it was told."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from world.kit import arrived, finished, granted, sampled, state, told

from hivemind import __version__
from hivemind import api_types as api
from hivemind.control.app import control_app
from hivemind.control.proof import API, PATH, proof
from hivemind.control.rights import OPERATOR, Principal, Rights
from hivemind.scheduler.commands import Command, Rejected
from hivemind.scheduler.events import Event
from hivemind.store.token_file import ControlKey
from hivemind.world.fleet import Fleet
from hivemind.world.health import Verdict
from hivemind.world.snapshot import AgentView, Alarm, RequestDetail, Requests, Snapshot
from hivemind_mock.provider.serve import serving

TOKEN = "control-token-of-the-tests"
BEARER = {"authorization": f"Bearer {TOKEN}"}
RUN = "run-1"


def proven(target: str, token: str = TOKEN, run: str = RUN) -> bytes:
    """What a proxy with that token answers to a challenge of that path and query."""
    nonce = parse_qs(urlsplit(target).query)["nonce"][0]
    return json.dumps({"run": run, "proof": proof(token, nonce, run), "api": API}).encode()


def proving(
    answer: Callable[[httpx.Request], httpx.Response], token: Callable[[], str] = lambda: TOKEN
) -> httpx.MockTransport:
    """Answers so, once it has proven that it knows the token."""

    def reply(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(PATH):
            assert "authorization" not in request.headers
            return httpx.Response(200, content=proven(str(request.url), token()))
        return answer(request)

    return httpx.MockTransport(reply)


class FakeRuns:
    """No run is live; requests that show the control token are the operator's."""

    async def principal(self, shown: str, control_token: str, scope: Mapping[str, Any]) -> Principal | None:
        return OPERATOR if shown == control_token else None

    def token_of(self, public: str) -> str:
        return f"hmrun-{public}.secret"

    def within(self, run: str, process: str) -> bool:
        return False


class FakeProxy:
    """What the control API needs of a proxy. Its clock stands at `at`."""

    rights: Rights  # it has no runs, and so none

    def __init__(self, *events: Event, settings_file: Path | None = None, run: str = RUN) -> None:
        self.engine = self.processes = self
        self.runs = FakeRuns()
        self.control_key: ControlKey | None = ControlKey(run, TOKEN)
        self.settings_file = settings_file
        self.checkpoints: Path | None = None
        self.fold = told(*events)
        self.at = 10.0
        self.asked_since: list[int] = []
        self.reject = ""
        self.its_fleet = Fleet()
        self.applied: list[tuple[Command, str]] = []

    def happens(self, *events: Event) -> None:
        """These too."""
        for event in events:
            self.fold.apply(event)

    def health(self) -> tuple[str, float, tuple[Alarm, ...]]:
        return self.fold.mode, self.fold.uptime_s(self.at), ()

    def verdict(self) -> Verdict:
        return self.snapshot().verdict

    def fleet_state(self) -> str:
        return ""

    def snapshot(self, *, newest: int | None = None) -> Snapshot:
        return self.fold.snapshot(self.at)

    def requests(self, since: int) -> Requests:
        self.asked_since.append(since)
        return self.fold.requests(since, self.at)

    def detail(self, ticket: int) -> RequestDetail | None:
        return self.fold.detail(ticket, self.at)

    def apply(self, command: Command, who: str) -> None:
        if self.reject:
            raise Rejected(self.reject)
        self.applied.append((command, who))

    async def settled(self) -> None:
        """It keeps nothing."""

    def about(self) -> api.About:
        return api.About(RUN, __version__, "", (), False, 0, False, None)

    def tasks(self, batch: str | None, *, running: bool = False) -> tuple[api.TaskState, ...]:
        return ()

    def budgets(self, agent: str | None) -> api.BudgetsPart:
        raise Rejected("it has no agents")

    def spelling(self, name: str) -> str:
        return name

    async def fleet(self) -> Fleet:
        return self.its_fleet

    def fleet_agents(self) -> tuple[AgentView, ...]:
        return self.snapshot().agents

    async def apply_anywhere(self, command: Command, who: str) -> None:
        self.apply(command, f"{who}, anywhere")

    def claim(self, wanted: api.ClaimRequest, who: str) -> api.TaskClaim:
        return api.TaskClaim(None, 0, 0)

    def place(self, wanted: api.PlaceRequest, who: str) -> api.PlaceResponse:
        raise Rejected("it has no places")

    async def leave(self, ended: api.PlaceRelease, who: str) -> api.RunUsage:
        return api.RunUsage(0, 0.0, 0, None)

    def is_below(self, run: str, name: str) -> bool:
        """None has."""
        return False

    def denied(self, run: str, asked: str, why: str) -> None:
        raise AssertionError("it has no runs")


def busy_proxy(settings_file: Path | None = None, run: str = RUN) -> FakeProxy:
    """One request of ann's is over, one flies; a lane has three points."""
    events = (
        *(arrived(1), granted(1), finished(1), sampled(5.0, state())),
        *(arrived(2, at=6.0), granted(2, at=7.0), sampled(7.0, state()), sampled(9.0, state())),
    )
    return FakeProxy(*events, settings_file=settings_file, run=run)


@contextlib.asynccontextmanager
async def asking(proxy: FakeProxy, headers: dict[str, str] | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of its control API, without a socket between; it shows the token unless told otherwise."""
    shown = BEARER if headers is None else headers
    transport = httpx.ASGITransport(control_app(proxy))
    async with httpx.AsyncClient(transport=transport, base_url="http://hivemind", headers=shown) as web:
        yield web


@contextlib.asynccontextmanager
async def controlled(proxy: FakeProxy, port: int = 0) -> AsyncIterator[str]:
    """Its control API on a socket; gives the URL."""
    async with serving(control_app(proxy), port=port) as url:
        yield url
