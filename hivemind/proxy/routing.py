"""Which upstream a request goes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hivemind.providers.paths import provider_for_path
from hivemind.redaction.values import credentials_of_url
from hivemind.settings import Settings
from hivemind.upstream.connect import open_upstream
from hivemind.upstream.outbox import Outbox
from hivemind.wire.call import Route

if TYPE_CHECKING:
    import httpx


class Routes:
    """The open upstreams. A single one gets every path; several are chosen by path, or named by `/to/<name>/`."""

    def __init__(self, routes: Sequence[Route], outbox: Outbox | None = None) -> None:
        self.outbox = outbox or Outbox()
        """The writes of a turn of the event loop, to upstreams and clients."""
        self._by_name = {route.origin.name: route for route in routes}
        self._by_provider: dict[str, Route] = {}
        for route in routes:
            self._by_provider.setdefault(route.origin.profile.name, route)
        self._first = routes[0]

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Name and URL of each upstream."""
        return tuple((name, route.origin.url) for name, route in self._by_name.items())

    def find(self, name: str | None, path: str, headers: Mapping[bytes, bytes]) -> Route | None:
        """Return the upstream for a path, or the one named; None where none fits."""
        if name is not None:
            return self._by_name.get(name)
        if len(self._by_name) == 1:
            return self._first
        provider = provider_for_path(path)
        if provider is None:
            # Lists of models and files have the same path everywhere; the client's headers tell the provider.
            if b"anthropic-version" in headers:
                provider = "anthropic"
            elif b"x-goog-api-key" in headers:
                provider = "google"
            else:
                return self._first
        return self._by_provider.get(provider) or self._by_provider.get("generic")

    async def aclose(self) -> None:
        """Close every upstream."""
        for route in self._by_name.values():
            await route.upstream.aclose()


def open_routes(settings: Settings, transports: Mapping[str, httpx.AsyncBaseTransport] | None) -> Routes:
    """Open every upstream of the settings; `transports` replaces the network for those it names.

    Raises: UsageError, ValueError: with one line, when an upstream can't be opened as the settings say.
    """
    via = settings.via.get_secret_value() if settings.via else None
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
