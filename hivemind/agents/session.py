"""A proxy for a runner to work with: the one that runs already, or one that is started for it.

No runner serves a proxy itself: killed or stopped, it would take every other agent with it. The detached one that it
starts (:mod:`hivemind.host.detached`) keeps nothing of its starter: no terminal, folder or variable with a credential.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx

from hivemind.agents import descendants
from hivemind.agents.environment import ProxyRoute
from hivemind.api_types import About
from hivemind.control import discovery
from hivemind.control.client import ControlClient, ControlError, open_http
from hivemind.control.discovery import connectable, local_url
from hivemind.errors import BindError, HiveMindError, UsageError
from hivemind.host.detached.start import completed, start_detached
from hivemind.host.listening import targets
from hivemind.host.start_lock import StartLock
from hivemind.records import replace
from hivemind.scheduler.commands import Command
from hivemind.settings import Settings
from hivemind.store.token_file import state_dir

T = TypeVar("T")
Ask = Callable[[ControlClient], Awaitable[T]]
Say = Callable[[str], object]

OTHER_STARTS_S = 5.0
"""If the port is taken, how long it may take until a HiveMind answers there."""
IDLE_EXIT_S = 300.0
"""How long a proxy that a runner started stays when it is idle, unless the settings say."""
PLACED_WITHIN_S = 3.0
"""How long a runner may take from the proxy's first answer to its place, for the proxy not to end meanwhile."""
_LOOK_EVERY_S = 0.1
_ANSWERS_WITHIN_S = 1.0
_AGAIN_S, _AGAIN_MOST_S = 0.25, 2.0
"""The first and the longest pause between attempts to reach a proxy that is away."""


class NoProxy(HiveMindError):
    """No proxy answers, and none can be started."""


@dataclass
class Session:
    """The proxy of a runner. It may be restarted meanwhile, with another token."""

    client: ControlClient
    way: ProxyRoute
    """The route from agents' processes to it."""
    about: About
    started: bool = False
    """The proxy was started for this session; it outlives it."""
    placed: Callable[[], object] = field(default=lambda: None, repr=False)
    """To be called with the first place: until then, but for no longer than a few seconds, the proxy doesn't end for
    want of use, and nobody else starts one."""

    async def ask(self, ask: Ask[T]) -> T:
        """Ask the proxy, as in `ask(lambda client: client.about())`; again if only the token was out of date.

        Raises: ControlError, Rejected.
        """
        try:
            return await ask(self.client)
        except ControlError as error:
            if error.sent or not self.client.renew_token():
                raise
        return await ask(self.client)

    async def patiently(
        self, ask: Ask[T], *, away: Say | None = None, back: Callable[[], object] | None = None, within_s: float = 1e9
    ) -> T:
        """Ask until the proxy answers. A request without an answer may have been executed, so it must be idempotent.

        `away` is called once, with the reason; `back` when the proxy answers after that. Raises: ControlError: it
        didn't answer within that time; Rejected.
        """
        loop = asyncio.get_running_loop()
        until, pause_s, is_away = loop.time() + within_s, _AGAIN_S, False
        while True:
            try:
                answer = await self.ask(ask)
            except ControlError as error:
                if loop.time() + pause_s > until:
                    raise
                if away is not None and not is_away:
                    away(str(error))
                is_away = True
            else:
                if is_away and back is not None:
                    back()
                return answer
            await asyncio.sleep(pause_s)
            pause_s = min(_AGAIN_MOST_S, pause_s * 1.5)

    async def order(self, command: Command, who: str, within_s: float = 0.0) -> None:
        """Have a command executed, within this time if the proxy is away. Raises: ControlError, Rejected."""
        await self.patiently(lambda client: client.command(command, who), within_s=within_s)


@contextlib.asynccontextmanager
async def open_session(
    settings: Settings,
    *,
    environ: Mapping[str, str],
    say: Say,
    attach: str | None = None,
    token_file: Path | None = None,
    settings_file: Path | None = None,
    to: str | None = None,
    hold_answers: bool = False,
) -> AsyncIterator[Session]:
    """Find the proxy: at `attach`, else at HIVEMIND_URL (in an agent's process), else where these settings put it. Only
    there one is started if none runs, which `say` reports in a line. It outlives this process and ends when idle.

    `to` names the upstream for all requests; `hold_answers`: their streams are held until they are whole.

    Raises: UsageError: a URL, a name or a token is wrong or missing; NoProxy.
    """
    environ = proxy_variables(settings, environ)
    given = attach or environ.get(discovery.URL_VARIABLE)
    async with contextlib.AsyncExitStack() as stack:
        lock = StartLock(settings.state_dir, settings.port)
        if given is not None:
            client, about = await _attached(discovery.parse_address(given), environ, token_file, stack)
            started = False
        else:
            settings.check_upstream()
            if settings.idle_exit_s is None:
                settings = replace(settings, idle_exit_s=IDLE_EXIT_S)
            await lock.wait()
            stack.callback(lock.release)
            client, about, log = await find_or_start(settings, environ, settings_file, stack)
            asyncio.get_running_loop().call_later(PLACED_WITHIN_S, lock.release)
            started = log is not None
            if log is not None:
                ends = ", and ends when it is idle" if settings.idle_exit_s else ""
                say(f"no proxy ran, so one was started{ends}: {where_it_serves(settings, client.url, about, log)}")
        yield Session(client, _route(settings, client.url, about, to, hold_answers), about, started, lock.release)


def proxy_variables(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with those by which the token of a proxy with these settings is found."""
    made = dict(environ)
    if settings.control_token is not None:
        made[discovery.TOKEN_VARIABLE] = settings.control_token.reveal()
    if settings.state_dir is not None:
        made[discovery.STATE_VARIABLE] = str(settings.state_dir)
    return made


def _route(settings: Settings, url: str, about: About, to: str | None, hold_answers: bool) -> ProxyRoute:
    names = [name for name, _ in about.upstreams]
    if to is not None and to not in names:
        raise UsageError(f"--to {to}: the proxy has no such upstream; it has {', '.join(names)}")
    token = None if settings.token is None else settings.token.reveal()
    if about.agents_token and token is None:
        raise UsageError(f"the proxy at {url} wants a token of its agents: set HIVEMIND_TOKEN")
    try:
        folder = state_dir(settings.state_dir)
    except OSError:
        folder = None
    return ProxyRoute(
        url, token if about.agents_token else None, about.upstreams, to, folder, hold_answers=hold_answers
    )


async def _attached(
    place: discovery.ProxyAddress, environ: Mapping[str, str], token_file: Path | None, stack: contextlib.AsyncExitStack
) -> tuple[ControlClient, About]:
    return await _opened(place, discovery.find_token(place, environ, token_file), stack)


async def _opened(
    place: discovery.ProxyAddress, token: discovery.Token, stack: contextlib.AsyncExitStack
) -> tuple[ControlClient, About]:
    client = ControlClient(place.url, token, await stack.enter_async_context(open_http(place)))
    try:
        return client, await client.about()
    except ControlError as error:
        raise NoProxy(f"no proxy at {place.url}: {error}") from None


def where_it_serves(settings: Settings, url: str, about: About, log: str) -> str:
    """Return the URL of a proxy that was started with these settings, its upstreams, what they are reached through, and
    its log in one line."""
    where = targets(about.upstreams, settings.route())
    return f"{url} -> {where} ({'no log' if log == os.devnull else f'log: {log}'})"


async def find_or_start(
    settings: Settings, environ: Mapping[str, str], file: Path | None, stack: contextlib.AsyncExitStack
) -> tuple[ControlClient, About, str | None]:
    """Return the proxy that runs where these settings put it, else start one; with the log of one that was started.

    To be called with the :class:`.StartLock` of its port, so that no other is started, and none found that ends.
    Raises: UsageError, NoProxy, HiveMindError.
    """
    loop = asyncio.get_running_loop()
    until, refused = loop.time() + OTHER_STARTS_S, None
    place = discovery.parse_address(local_url(settings.host, settings.port)) if settings.port else None
    while True:
        # A proxy notes its token before it answers, so if it answers and no token is found, it is another user's.
        answers = refused is not None and place is not None and await _answers(place)
        why, foreign = "no proxy of yours is noted", False
        if place is not None:
            try:
                return *await _attached(place, environ, None, stack), None
            except (UsageError, NoProxy) as error:
                why, foreign = str(error), isinstance(error, discovery.NoRunningProxy)
        if refused is not None and (answers or not refused.in_use or loop.time() > until):
            if refused.in_use and foreign:
                raise NoProxy(
                    f"port {settings.port} on {settings.host} is in use, and not by a proxy of yours; choose"
                    " another with --port, or --port 0 for any free one"
                )
            raise NoProxy(f"{refused}; {why}" if refused.in_use else str(refused))
        try:
            return await _started(settings, environ, file, stack)
        except BindError as error:
            refused = error  # perhaps another program is starting one
        await asyncio.sleep(_LOOK_EVERY_S)


async def _started(
    settings: Settings, environ: Mapping[str, str], file: Path | None, stack: contextlib.AsyncExitStack
) -> tuple[ControlClient, About, str]:
    """Start a proxy. Raises: BindError; HiveMindError."""
    with descendants.set_free():
        started = await start_detached(completed(settings), file, environ)
    place = discovery.parse_address(connectable(started.url))
    try:
        token = discovery.find_token(place, environ)
    except UsageError:  # it can't be noted in a file
        token = discovery.Token(started.token, "its start")
    return *await _opened(place, token, stack), started.log


async def _answers(place: discovery.ProxyAddress) -> bool:
    async with open_http(place) as http:
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN_S), http.stream("GET", f"{place.url}/_health"):
                return True
        except (httpx.HTTPError, TimeoutError):
            return False
