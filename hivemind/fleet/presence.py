"""What a proxy tells its fleet of itself, and what any viewer reads of all of them.

Each proxy writes a short record a second, which expires; only while somebody watches also its snapshot. Neither holds a
credential or a body: a snapshot is what the control API shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from hivemind.control.codec import UNREADABLE, decode_snapshot, snapshot_part
from hivemind.fleet.store import StoreError
from hivemind.packing import decompressed, zstd
from hivemind.records import replace
from hivemind.redaction.text import identifier, label
from hivemind.waiting import wait_up_to
from hivemind.world.fleet import Member
from hivemind.world.snapshot import AgentView, Snapshot

_log = logging.getLogger(__name__)

MEMBERS = "hm:proxies"
WATCHED = "hm:watched"
PRESENT_S = 10.0
"""A proxy that wasn't heard of for so long isn't listed any more."""
WATCHED_S = 3.0
"""A viewer that asked within this time still watches."""
SNAPSHOT_S = 5.0
EVERY_S = 1.0
"""Between two records of a proxy."""
SHOWN_EVERY_S = 0.5
"""Between two snapshots while somebody watches."""
_SMALL = 1024
"""Shorter snapshots aren't compressed."""
_MOST_LISTED = 1_000
"""Proxies of a fleet, and lanes of a proxy, of which more aren't read."""
_MOST_RECORD = 1 << 20
"""Bytes of a proxy's record."""
_MOST_SNAPSHOT = 64 << 20
"""Bytes of a snapshot; a longer one isn't read."""
_MAGIC = b"\x28\xb5\x2f\xfd"
"""How data in the format of Zstandard begins."""

Argument = str | bytes | int | float


class StoreCalls(Protocol):
    """What is used of :class:`hivemind.fleet.store.FleetStore`."""

    @property
    def shown(self) -> str: ...
    async def call(self, *command: Argument) -> Any: ...
    async def pipeline(self, commands: Sequence[Any]) -> list[Any]: ...


def proxy_key(member: str) -> str:
    """Return the key of a proxy's record."""
    return f"hm:proxy:{member}"


def snapshot_key(member: str) -> str:
    """Return the key of a proxy's snapshot."""
    return f"hm:snapshot:{member}"


class Beacon:
    """Keeps a proxy's record in the store fresh, and its snapshot while somebody watches.

    `also` is awaited with each beat, for what else comes with it (the inbox).
    """

    def __init__(
        self,
        store: StoreCalls,
        describe: Callable[[], Member],
        snapshot: Callable[[], Snapshot],
        run: str,
        also: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._store = store
        self._describe = describe
        self._snapshot = snapshot
        self._run = run
        self._also = also
        self._wake = asyncio.Event()
        self._failing = False
        self.watched = False
        """Whether somebody watched at the last beat."""

    def call(self) -> None:
        """Beat now."""
        self._wake.set()

    async def run(self) -> None:
        """Beat for ever. A store that is away is reported by the leases; beats go on when it is back."""
        while True:
            self._wake.clear()
            try:
                await self.beat()
                self._failing = False
            except StoreError:
                self.watched = False
            except Exception:  # the traffic doesn't depend on what is shown of it
                if not self._failing:
                    _log.exception("the fleet isn't told of this proxy")
                self._failing = True
            await wait_up_to(self._wake, SHOWN_EVERY_S if self.watched else EVERY_S)

    async def beat(self) -> None:
        """Write the record; and the snapshot, if somebody watches. Raises: StoreError."""
        me = self._describe()
        record = msgspec.json.encode(me)
        commands: list[Sequence[Argument]] = [
            ("SET", proxy_key(me.id), record, "PX", int(PRESENT_S * 1000)),
            ("ZADD", MEMBERS, me.started, me.id),
            ("EXISTS", WATCHED),
        ]
        answers = whole(await self._store.pipeline(commands))
        self.watched = bool(answers[-1])
        if self.watched:
            data = pack(self._snapshot(), self._run)
            await self._store.call("SET", snapshot_key(me.id), data, "PX", int(SNAPSHOT_S * 1000))
        if self._also is not None:
            await self._also()

    async def leave(self, member: str) -> None:
        """Take the proxy off the list. Raises: StoreError."""
        whole(
            await self._store.pipeline(
                [("DEL", proxy_key(member)), ("DEL", snapshot_key(member)), ("ZREM", MEMBERS, member)]
            )
        )


class Viewer:
    """Reads what the proxies of a fleet tell."""

    def __init__(self, store: StoreCalls) -> None:
        self._store = store

    async def members(self) -> tuple[Member, ...]:
        """Return the proxies that are there, those that can be read. Raises: StoreError."""
        answer = await self._store.call("ZRANGE", MEMBERS, 0, _MOST_LISTED - 1)
        ids = [_text(each) for each in answer] if isinstance(answer, list) else []
        if not ids:
            return ()
        asked: list[Sequence[Argument]] = [("GET", proxy_key(each)) for each in ids]
        asked += [("PTTL", proxy_key(each)) for each in ids]
        answers = whole(await self._store.pipeline(asked))
        records, left_ms = answers[: len(ids)], answers[len(ids) :]
        gone = [each for each, record in zip(ids, records, strict=True) if record is None]
        if gone:
            await self._store.call("ZREM", MEMBERS, *gone)
        found = (_member(record, ms) for record, ms in zip(records, left_ms, strict=True))
        return tuple(member for member in found if member is not None)

    async def watch(self) -> None:
        """Ask the proxies to show their snapshots for the next seconds. Raises: StoreError."""
        await self._store.call("SET", WATCHED, 1, "PX", int(WATCHED_S * 1000))

    async def snapshots(self, members: Iterable[Member]) -> Mapping[str, bytes]:
        """Return the packed snapshots that there are, by member. Raises: StoreError."""
        ids = [member.id for member in members]
        if not ids:
            return {}
        answers = await self._store.call("MGET", *map(snapshot_key, ids))
        if not isinstance(answers, list) or len(answers) != len(ids):
            return {}
        return {each: answer for each, answer in zip(ids, answers, strict=True) if isinstance(answer, bytes)}


class AgentsOnly(Struct, frozen=True):
    """The part of a snapshot that a table of all machines' agents needs."""

    agents: tuple[AgentView, ...]


class _Part(Struct, frozen=True):
    snapshot: AgentsOnly


def pack(snapshot: Snapshot, run: str) -> bytes:
    """Return a snapshot as it is put into the store."""
    data = msgspec.json.encode(snapshot_part(snapshot, run, None))
    return data if len(data) < _SMALL else zstd.compress(data, level=1)


def unpack(data: bytes) -> Snapshot | None:
    """Return a snapshot from the store; None: it isn't one, or one of a version that can't be read here."""
    try:
        return decode_snapshot(_plain(data)).snapshot
    except (*UNREADABLE, ValueError):
        return None


def unpack_agents(data: bytes) -> tuple[AgentView, ...]:
    """Return the agents of a snapshot from the store, which costs little; none where it can't be read."""
    try:
        return msgspec.json.decode(_plain(data), type=_Part).snapshot.agents
    except (*UNREADABLE, ValueError):
        return ()


def _plain(data: bytes) -> bytes:
    return decompressed(data, _MOST_SNAPSHOT) if data.startswith(_MAGIC) else data


def _member(record: Any, left_ms: Any) -> Member | None:
    if not isinstance(record, bytes) or len(record) > _MOST_RECORD or not isinstance(left_ms, int):
        return None
    try:
        member = msgspec.convert(_fit_to_show(msgspec.json.decode(record)), Member)
    except UNREADABLE:
        return None
    old_s = max(0.0, PRESENT_S - left_ms / 1000)
    lanes = tuple(
        lane if lane.lease_age_s is None else replace(lane, lease_age_s=lane.lease_age_s + old_s)
        for lane in member.lanes
    )
    return replace(member, lanes=lanes, seen_s=old_s, label="")


def _fit_to_show(value: Any, name: str = "") -> Any:
    """Return a value of a record with lists and texts of bounded length, and texts without control characters or keys:
    whoever may write to the store can write anything."""
    if isinstance(value, str):
        return identifier(value) if name in ("id", "lane") else label(value)
    if isinstance(value, list):
        return [_fit_to_show(each) for each in value[:_MOST_LISTED]]
    return {key: _fit_to_show(each, key) for key, each in value.items()} if isinstance(value, dict) else value


def whole(answers: Sequence[Any]) -> list[Any]:
    """Return the answers of commands sent together. Raises: StoreError: one of them failed."""
    for each in answers:
        if isinstance(each, Exception):
            raise each
    return [*answers]


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
