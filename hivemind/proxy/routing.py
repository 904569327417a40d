"""Which upstream a request goes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hivemind.providers.base import Headers
from hivemind.providers.signs import NOT_SERVED, UNCLEAR, choose, provider_of, told_by
from hivemind.redaction.values import credentials_of_url
from hivemind.settings import Settings
from hivemind.upstream.connect import open_upstream
from hivemind.upstream.outbox import Outbox
from hivemind.wire.call import Route
from hivemind.wire.identity import ANONYMOUS, fingerprint
from hivemind.wire.request_head import RequestPath, RequestRefused, fields

if TYPE_CHECKING:
    import httpx


MOST_REMEMBERED = 4096
"""Keys and names of which it is remembered where they were routed to."""
_SEVERAL = -1
"""In place of an upstream: there was more than one."""


class Routes:
    """The open upstreams. A single one gets every path; of several, one is chosen by what the request says of itself
    (:mod:`hivemind.providers.signs`), or named by `/upstream/<name>/`."""

    def __init__(self, routes: Sequence[Route], outbox: Outbox | None = None) -> None:
        self.outbox = outbox or Outbox()
        """The writes of a turn of the event loop, to upstreams and clients."""
        self._routes = tuple(routes)
        self._places = {route.origin.name: place for place, route in enumerate(routes)}
        self._providers = [
            provider_of(origin.name, origin.url, origin.profile.name) for origin in (route.origin for route in routes)
        ]
        self._before: dict[str, int] = {}
        """By key and name: the place of the only upstream that had it."""

    @property
    def all(self) -> tuple[Route, ...]:
        """Every upstream, in the order given."""
        return self._routes

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Name and URL of each upstream."""
        return tuple((route.origin.name, route.origin.url) for route in self._routes)

    def find(self, place: RequestPath, query: bytes, headers: Headers, agent: str) -> Route:
        """Return the upstream that a request is for; `agent` is the name that it claims.

        Raises: RequestRefused: there is none, or nothing tells which.
        """
        if len(self._routes) == 1 and place.upstream is None:
            return self._routes[0]
        key = fingerprint(fields(headers), query)
        remembered = f"key {key}" if key != ANONYMOUS else f"name {agent}" if agent else ""
        if place.upstream is not None:
            found = self._places.get(place.upstream, NOT_SERVED)
        else:
            before = self._before.get(remembered, _SEVERAL)
            found = choose(told_by(place.path, query, headers), self._providers, None if before == _SEVERAL else before)
        if found == NOT_SERVED:
            raise RequestRefused(404, f"no upstream for this path; name one: {self._named()}", "unknown_route")
        if found == UNCLEAR:
            raise RequestRefused(
                400,
                "nothing in this request tells clearly which upstream it and its key are for, so it was sent to none;"
                f" begin the path (in the base URL) with one of {self._named()}",
                "unclear_route",
            )
        self._remember(f"key {key}" if key != ANONYMOUS else "", found)
        self._remember(f"name {agent}" if agent else "", found)
        return self._routes[found]

    def _named(self) -> str:
        return ", ".join(f"/upstream/{name}/" for name in self._places)

    def _remember(self, what: str, place: int) -> None:
        if not what:
            return
        if self._before.setdefault(what, place) != place:
            self._before[what] = _SEVERAL
        elif len(self._before) > MOST_REMEMBERED:
            del self._before[next(iter(self._before))]

    async def aclose(self) -> None:
        """Close every upstream."""
        for route in self._routes:
            await route.upstream.aclose()


def open_routes(settings: Settings, transports: Mapping[str, httpx.AsyncBaseTransport] | None) -> Routes:
    """Open every upstream of the settings; `transports` replaces the network for those it names.

    Raises: UsageError, ValueError: with one line, when an upstream can't be opened as the settings say.
    """
    via = settings.via.reveal() if settings.via else None
    secrets = credentials_of_url(via) if via else ()
    ca_file = str(settings.ca_file) if settings.ca_file else None
    outbox = Outbox()
    return Routes(
        [
            Route(
                origin,
                open_upstream(
                    origin.url,
                    via=via,
                    ca_file=ca_file,
                    timeouts=settings.timeouts(),
                    transport=(transports or {}).get(origin.name),
                    outbox=outbox,
                ),
                settings.lane_config(origin),
                secrets,
            )
            for origin in settings.origins()
        ],
        outbox,
    )
