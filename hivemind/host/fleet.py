"""A proxy's part in its fleet: the store, and the lanes that are leased through it."""

from __future__ import annotations

import logging
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.fleet.link import Link, LinkState
from hivemind.fleet.scripts import ALLOCATOR
from hivemind.fleet.store import Fault, Store, StoreError
from hivemind.proxy.engine import Engine
from hivemind.wire.fleet_lanes import FleetLanes

_log = logging.getLogger(__name__)


class FleetPart:
    """Made with the proxy, started and closed with it.

    Raises: UsageError: the URL can't be a store's, or the library that speaks to it isn't installed.
    """

    link: Link
    """From :meth:`start` on."""

    def __init__(self, url: str, ca_file: Path | None = None) -> None:
        self.store = Store(url, ca_file)
        self.lanes = FleetLanes()
        self._begun = False

    async def check(self) -> None:
        """Try to reach the store once; where it isn't there, requests wait until it is.

        Raises: UsageError: it is there, but refuses what the settings say of it.
        """
        try:
            await self.store.call("PING")
        except StoreError as error:
            if error.fault is Fault.MISTAKE or error.kind == "password":
                await self.store.aclose()
                raise UsageError(f"fleet: {error}") from None
            _log.warning("%s; requests wait until it is there", error)

    def start(self, engine: Engine) -> None:
        """Have the engine's lanes leased from now on; before it gets any."""
        self.link = Link(self.store, engine, ALLOCATOR, self.lanes.name)
        engine.leasing = True
        engine.on_lane_opened = lambda key, config: self.link.open(key)
        engine.on_lease_short = self.link.hurry
        self.link.start()
        self._begun = True

    async def aclose(self) -> None:
        """Leave the fleet."""
        if self._begun:
            await self.link.aclose()
        await self.store.aclose()

    def state(self) -> LinkState:
        """Return how this proxy stands to its fleet."""
        return self.link.state()
