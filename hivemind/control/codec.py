"""JSON encoding of the API's types, and snapshots that are sent in parts and merged by the client.

JSON has no infinity, so an infinite number is null. Numbers that may be missing are null too, and never infinite.

Priorities are names, except in the snapshot and its requests, which are read many times a second: there they are the
numbers of :class:`~hivemind.scheduler.types.Priority`, 0 being the most urgent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from hivemind import __version__
from hivemind.api_types import SnapshotPart
from hivemind.infinity import Infinities
from hivemind.records import names_of, replace
from hivemind.scheduler.types import Priority
from hivemind.world.snapshot import CurvePoint, LaneView, Snapshot

T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises if the data isn't of the type, or is nested too deeply."""
_PLAIN = frozenset({str, int, float, bool, type(None)})
_FIELDS: dict[type, tuple[str, ...] | None] = {}
"""The names of a dataclass's fields; None: it isn't a dataclass."""


class OutOfSync(ValueError):
    """A part doesn't fit the client's snapshot; the client must request a whole one."""


def snapshot_part(snapshot: Snapshot, run: str, after: float | None) -> SnapshotPart:
    """Return what is new since `after`, the `at` of the client's snapshot; None: the whole snapshot."""
    curves, lines = tuple(len(lane.curve) for lane in snapshot.lanes), len(snapshot.lines)
    if after is not None:
        # Lines of the same instant may be newer: the loop's clock doesn't advance within a callback.
        fresh = next((n for n, line in enumerate(snapshot.lines) if line.at >= after), lines)
        # The point before may have changed too: the last point of a curve does.
        known = [max(0, bisect_right(lane.curve, after, key=attrgetter("at")) - 1) for lane in snapshot.lanes]
        lanes = tuple(LaneView(lane.state, lane.curve[n:]) for lane, n in zip(snapshot.lanes, known, strict=True))
        snapshot = replace(snapshot, lanes=lanes, lines=snapshot.lines[fresh:])
    return SnapshotPart(run, __version__, after is None, curves, lines, snapshot)


def merge(known: Snapshot | None, part: SnapshotPart) -> Snapshot:
    """Merge a part into the known snapshot, and return the whole. Raises: OutOfSync."""
    if part.whole:
        return part.snapshot
    if known is None:
        raise OutOfSync("received a part without a snapshot to merge it into")
    curves = {lane.state.lane: lane.curve for lane in known.lanes}
    lanes = tuple(
        LaneView(lane.state, _joined(curves.get(lane.state.lane, ()), lane.curve, count))
        for lane, count in zip(part.snapshot.lanes, part.curves, strict=True)
    )
    older = tuple(line for line in known.lines if line.at < known.at)
    return replace(part.snapshot, lanes=lanes, lines=_last(older + part.snapshot.lines, part.lines))


def _joined(known: tuple[CurvePoint, ...], fresh: tuple[CurvePoint, ...], count: int) -> tuple[CurvePoint, ...]:
    older = known[: sum(point.at < fresh[0].at for point in known)] if fresh else known
    return _last(older + fresh, count)


def _last(items: tuple[T, ...], count: int) -> tuple[T, ...]:
    if len(items) < count:
        raise OutOfSync(f"expected {count} items, and have {len(items)}")
    return items[len(items) - count :]


def encode_named(value: object) -> bytes:
    """Encode a value, priorities as names."""
    return msgspec.json.encode(to_plain(value))


def decode_named(data: bytes, made: type[T]) -> T:
    """Decode a type whose priorities are names. Raises: UNREADABLE."""
    return msgspec.convert(_numbered(msgspec.json.decode(data)), made)


def to_plain(value: Any) -> Any:
    """Convert a value to objects, lists and scalars, priorities to names."""
    made = type(value)
    if made in _PLAIN:
        return value
    if made not in _FIELDS:
        _FIELDS[made] = names_of(made)
    names = _FIELDS[made]
    if names is not None:
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, Priority):
        return value.name.lower()
    if isinstance(value, Mapping):
        return {key: to_plain(each) for key, each in value.items()}
    return [to_plain(each) for each in value] if isinstance(value, tuple | list) else value


def _numbered(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbered(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: _numbered(each) for key, each in value.items()}
    named = made.get("priority")
    if isinstance(named, str):
        made["priority"] = Priority.__members__.get(named.upper(), named)
    return made


def decode_snapshot(data: bytes) -> SnapshotPart:
    """Decode a snapshot. Raises: UNREADABLE: it isn't one, or one of another version."""
    values = msgspec.json.decode(data)
    _in_world().fill(values)
    return msgspec.convert(values, SnapshotPart)


@cache
def _in_world() -> Infinities:
    return Infinities(SnapshotPart)
