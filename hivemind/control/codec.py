"""The world and the requests as they go over the wire, as JSON, and how what is new joins what is known already.

JSON has no infinity, so a number without a limit goes as null. Where a number may also be missing, null says that, and
it is never infinite.

Priorities go by name, except in the world and its requests, which are asked for many times a second: there they are the
numbers of :class:`~hivemind.scheduler.types.Priority`, 0 being the most urgent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar

import msgspec

from hivemind import __version__
from hivemind.api_types import SnapshotPart
from hivemind.infinity import Infinities
from hivemind.scheduler.types import Priority
from hivemind.world.snapshot import CurvePoint, LaneView, Snapshot

T = TypeVar("T")

_PLAIN = frozenset({str, int, float, bool, type(None)})
_FIELDS: dict[type, tuple[str, ...] | None] = {}
"""Looked up once a type."""


class OutOfSync(ValueError):
    """What came doesn't join what is known; the whole has to be asked for."""


def snapshot_part(snapshot: Snapshot, run: str, after: float | None) -> SnapshotPart:
    """What somebody needs who knows the world of `after`, the `at` of an earlier snapshot; None: everything."""
    curves, lines = tuple(len(lane.curve) for lane in snapshot.lanes), len(snapshot.lines)
    if after is not None:
        # Lines of the very same moment may have come later: the clock stands still while the loop does one thing.
        fresh = next((n for n, line in enumerate(snapshot.lines) if line.at >= after), lines)
        lanes = tuple(LaneView(lane.state, _fresh(lane.curve, after)) for lane in snapshot.lanes)
        snapshot = replace(snapshot, lanes=lanes, lines=snapshot.lines[fresh:])
    return SnapshotPart(run, __version__, after is None, curves, lines, snapshot)


def _fresh(curve: tuple[CurvePoint, ...], after: float) -> tuple[CurvePoint, ...]:
    """The newest point that was there already may have changed since: it does until the next one comes."""
    known = bisect_right(curve, after, key=lambda point: point.at)
    return curve[max(0, known - 1) :]


def merge(known: Snapshot | None, part: SnapshotPart) -> Snapshot:
    """The whole snapshot: what is known, brought up to date.

    Raises: OutOfStep.
    """
    if part.whole:
        return part.snapshot
    if known is None:
        raise OutOfSync("a part came, and nothing is known yet")
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
        raise OutOfSync(f"{count} things are there, and {len(items)} are known")
    return items[len(items) - count :]


def encode(value: object) -> bytes:
    """JSON of any of these types."""
    return msgspec.json.encode(value)


def encode_named(value: object) -> bytes:
    """The same with priorities by name, as in what is asked."""
    return msgspec.json.encode(to_plain(value))


def decode_named(data: bytes, made: type[T]) -> T:
    """Of a type whose priorities go by name. Raises: msgspec.MsgspecError: it isn't one."""
    return msgspec.convert(_numbered(msgspec.json.decode(data)), made)


def to_plain(value: Any) -> Any:
    """A value as it goes over the wire: objects, lists, and priorities by name."""
    made = type(value)
    if made in _PLAIN:
        return value
    names = _fields_of(made)
    if names is not None:
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, Priority):
        return value.name.lower()
    if isinstance(value, Mapping):
        return {key: to_plain(each) for key, each in value.items()}
    return [to_plain(each) for each in value] if isinstance(value, tuple | list) else value


def _fields_of(made: type[Any]) -> tuple[str, ...] | None:
    """Of a dataclass; None: it is none."""
    if made not in _FIELDS:
        _FIELDS[made] = tuple(each.name for each in fields(made)) if is_dataclass(made) else None
    return _FIELDS[made]


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
    """Raises: msgspec.MsgspecError: it isn't one, or one of another version."""
    values = msgspec.json.decode(data)
    _in_world().fill(values)
    return msgspec.convert(values, SnapshotPart)


@cache
def _in_world() -> Infinities:
    return Infinities(SnapshotPart)
