"""A proxy for a runner to work with: the one that runs already, or one of its own for as long as the runner lives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import httpx

from hivemind import logs
from hivemind.agents.environment import ProxyRoute
from hivemind.api_types import About
from hivemind.control import discovery
from hivemind.control.client import ControlClient, ControlError, open_http
from hivemind.control.discovery import connectable, local_url
from hivemind.errors import BindError, HiveMindError, UsageError
from hivemind.scheduler.commands import Command
from hivemind.settings import FIRST_UPSTREAMS, Settings
from hivemind.store.token_file import ControlKey, state_dir

if TYPE_CHECKING:
    from hivemind.host.proxy import Proxy

T = TypeVar("T")
Ask = Callable[[ControlClient], Awaitable[T]]
Say = Callable[[str], object]
_Found = tuple[ControlClient, About, "Proxy | None"]

OTHER_STARTS_S = 5.0
"""If the port is taken, how long it may take until a HiveMind answers there."""
_LOOK_EVERY_S = 0.1
_ANSWERS_WITHIN_S = 1.0
_LOG_BYTES = 1 << 20
"""A longer log is truncated at the start."""
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
    proxy: Proxy | None = field(default=None, repr=False)
    """The proxy, if this process serves it; it ends with the session."""

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
) -> AsyncIterator[Session]:
    """Find the proxy: at `attach`, else at HIVEMIND_URL (in an agent's process), else where these settings put it. Only
    there one is started if none runs, which `say` reports in a line.

    At the end, one that was started here continues until the agents' processes that other runners started with it have
    ended; a cancellation ends it at once. `to` names the upstream for all requests.

    Raises: UsageError: a URL, a name or a token is wrong or missing; NoProxy.
    """
    environ = dict(environ)
    if settings.control_token is not None:
        environ[discovery.TOKEN_VARIABLE] = settings.control_token.get_secret_value()
    if settings.state_dir is not None:
        environ[discovery.STATE_VARIABLE] = str(settings.state_dir)
    given = attach or environ.get(discovery.URL_VARIABLE)
    async with contextlib.AsyncExitStack() as stack:
        if given is not None:
            found = await _attached(discovery.parse_address(given), environ, token_file, stack)
        else:
            found = await _here(settings, environ, settings_file, say, stack)
        client, about, proxy = found
        yield Session(client, _route(settings, client.url, about, to), about, proxy)
        if proxy is not None:
            others = proxy.processes.agents
            if others:
                more = " and others" if len(others) > 3 else ""
                say(f"the proxy serves on for {', '.join(others[:3])}{more}; Ctrl-C ends it")
            await proxy.processes.idle()


def _route(settings: Settings, url: str, about: About, to: str | None) -> ProxyRoute:
    names = [name for name, _ in about.upstreams]
    if to is not None and to not in names:
        raise UsageError(f"--to {to}: the proxy has no such upstream; it has {', '.join(names)}")
    token = None if settings.token is None else settings.token.get_secret_value()
    if about.agents_token and token is None:
        raise UsageError(f"the proxy at {url} wants a token of its agents: set HIVEMIND_TOKEN")
    try:
        folder = state_dir(settings.state_dir)
    except OSError:
        folder = None
    return ProxyRoute(url, token if about.agents_token else None, about.upstreams, to, folder)


async def _attached(
    place: discovery.ProxyAddress, environ: Mapping[str, str], token_file: Path | None, stack: contextlib.AsyncExitStack
) -> _Found:
    http = await stack.enter_async_context(open_http(place))
    client = ControlClient(place.url, discovery.find_token(place, environ, token_file), http)
    try:
        return client, await client.about(), None
    except ControlError as error:
        raise NoProxy(f"no proxy at {place.url}: {error}") from None


async def _here(
    settings: Settings, environ: Mapping[str, str], file: Path | None, say: Say, stack: contextlib.AsyncExitStack
) -> _Found:
    """Return the running proxy, else a new one. Raises: UsageError, NoProxy."""
    loop = asyncio.get_running_loop()
    until, refused = loop.time() + OTHER_STARTS_S, None
    place = discovery.parse_address(local_url(settings.host, settings.port)) if settings.port else None
    while True:
        # A proxy notes its token before it answers, so if it answers and no token is found then, it is another user's.
        answers = refused is not None and place is not None and await _answers(place)
        why, foreign = "no proxy of yours is noted", False
        if place is not None:
            try:
                return await _attached(place, environ, None, stack)
            except (UsageError, NoProxy) as error:
                why, foreign = str(error), isinstance(error, discovery.NoRunningProxy)
        if refused is not None and (answers or not refused.in_use or loop.time() > until):
            if refused.in_use and foreign:
                raise NoProxy(
                    f"port {settings.port} on {settings.host} is in use, and not by a proxy of yours; choose another"
                    " with --port, or --port 0 for any free one"
                )
            raise NoProxy(f"{refused}; {why}")
        try:
            return await _hosted(settings, file, say, stack)
        except BindError as error:
            refused = error  # perhaps another runner is starting one
        await asyncio.sleep(_LOOK_EVERY_S)


async def _answers(place: discovery.ProxyAddress) -> bool:
    async with open_http(place) as http:
        try:
            await http.get(f"{place.url}/_health", timeout=_ANSWERS_WITHIN_S)
        except httpx.HTTPError:
            return False
        return True


async def _hosted(settings: Settings, file: Path | None, say: Say, stack: contextlib.AsyncExitStack) -> _Found:
    from hivemind.host.proxy import Proxy
    from hivemind.host.server import serve
    from hivemind.prices import Prices

    if not settings.upstream:
        settings = settings.model_copy(update={"upstream": FIRST_UPSTREAMS})
    origins = settings.origins()
    prices = Prices()
    proxy = Proxy(settings, prices=prices)
    proxy.settings_file = file
    proxy.tell = logs.log_line
    priced = False
    async with contextlib.AsyncExitStack() as own:
        log = own.enter_context(_logged(settings))
        # Loaded before anything is used, because a command may end within a second and its cost is reported then.
        with contextlib.suppress(Exception):  # the proxy tries again, and logs the error
            await asyncio.to_thread(prices.load)
            priced = True
        await own.enter_async_context(serve(proxy, settings))
        own.push_async_callback(_drain, proxy, settings.drain_s)
        if priced:
            proxy.engine.price_by(prices.cost)
        if proxy.control_key is None:
            # It can't be noted in a file, and only this process needs it.
            proxy.control_key = ControlKey(secrets.token_hex(8), secrets.token_urlsafe(32))
        place = discovery.parse_address(connectable(proxy.address))
        http = await own.enter_async_context(open_http(place))
        client = ControlClient(place.url, discovery.Token(proxy.control_key.token, "this process"), http)
        targets = ", ".join(f"{origin.name} {origin.url}" for origin in origins)
        where = "no log" if str(log) == os.devnull else f"log: {log}"
        say(f"no proxy runs, so this one serves while it is needed: {place.url} -> {targets} ({where})")
        stack.push_async_callback(own.pop_all().aclose)
        return client, proxy.about(), proxy


@contextlib.contextmanager
def _logged(settings: Settings) -> Iterator[Path]:
    """Write the log to a file, because the terminal belongs to the agent. Yield its path."""
    root = logging.getLogger()
    before = list(root.handlers), root.level
    path = Path(os.devnull)
    with contextlib.suppress(OSError):  # without a log, the traffic continues
        folder = state_dir(settings.state_dir)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"proxy-{settings.port}.log"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        if path.stat().st_size > _LOG_BYTES:
            os.truncate(path, 0)
    with path.open("a", encoding="utf-8", errors="replace") as stream:
        logs.configure(settings.log_level, stream)
        try:
            yield path
        finally:
            root.handlers[:] = before[0]
            root.setLevel(before[1])


async def _drain(proxy: Proxy, timeout_s: float) -> None:
    with contextlib.suppress(asyncio.CancelledError):  # at the second request, what is in flight is cut
        await proxy.drain(timeout_s)
