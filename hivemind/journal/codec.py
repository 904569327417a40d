"""Lines of a journal, and the events that they hold.

`{"v":3,"event":"Granted","at":12.5,"ticket":7,…}`: the version and the event's name come first, then the event's fields
by their names, without those that have their defaults. JSON has no infinity, so a number without a limit is null
(:mod:`hivemind.infinity`). A request that is granted as it arrives is one line with the fields of both events, as is an
answer that comes whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from itertools import chain, repeat
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from hivemind import earlier
from hivemind.infinity import Infinities
from hivemind.journal.records import VERSION, Recorded, RequestBody, ResponseBody
from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Command, SubmitTasks
from hivemind.scheduler.types import Priority
from hivemind.settings_file import removed_in
from hivemind.world import lines
from hivemind.world.snapshot import TICKET_STATES
from hivemind.world.state import Carried

BOM = b"\xef\xbb\xbf"
"""Left at the start of a file by some editors."""
_HEAD = b'{"v":%d,"event":"' % VERSION
_HEADS = _HEAD, b'{"v":2,"event":"'
_EARLIER_HEAD = b'{"v":1,"event":"'
_NAME_AT = len(_HEAD)

_JOINED: Mapping[type[ev.Event], type[ev.Event]] = {ev.GrantedOnArrival: ev.Arrived, ev.AnsweredWhole: ev.Finished}
"""Events that hold two, and as which of them they are written down."""

KINDS: Mapping[str, type[ev.Event]] = {
    made.__name__: made
    for made in (
        *(each for each in vars(ev).values() if isinstance(each, type) and issubclass(each, ev.Event)),
        *get_args(Recorded),
    )
    if made not in (ev.Event, ev.TicketEvent, *_JOINED)
}
"""Every event that a journal may hold, by name."""

_PREFIXES = {made: _HEAD + name.encode() + b'",' for name, made in KINDS.items()}
_PREFIXES |= {joined: _PREFIXES[made] for joined, made in _JOINED.items()}
_UNBOUNDED: frozenset[type[ev.Event]] = frozenset({ev.Sampled, ev.LevelChanged, ev.LeaseChanged, Carried})
"""Events with a number in them that may be infinite."""
_CHECKED = frozenset({ev.Commanded, ev.BudgetWarned, Carried})
"""Rare events of which words and folds need more than the right types."""
_COMMANDS: Mapping[str, type[Any]] = {made.__name__: made for made in get_args(Command) if made is not SubmitTasks}
"""Those of which the event has the command's own arguments."""
_DEEPEST = 16
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_PIECE = 256 * 1024
"""Characters of a body that are encoded in one go."""
_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_AT_ONCE = b',"attempt":1}'
_USUAL = (
    (b'"cache_write_tokens":0,', b""),
    (b'"cache_write_1h_tokens":0,', b""),
    (b',"tier":"","requests":0', b""),
    (b',"waited_s":0.0' + _AT_ONCE, _AT_ONCE),
)
"""What is left out as a rule, and what stands there instead. Of a usage, what scripts look for is always there."""
_BESIDE: Mapping[type[ev.Event], tuple[bytes, Callable[[bytes], ev.Event]]] = {
    ev.Arrived: (_AT_ONCE, msgspec.json.Decoder(ev.Granted).decode),
    ev.Finished: (b',"ttft_s":', msgspec.json.Decoder(ev.FirstContent).decode),
}
"""By event, what shows that its line holds another one too, and what decodes that."""
BEGUN = frozenset({ev.Arrived, ev.FirstContent})
"""Events after which another one may come from the same line."""


Encoded = tuple[list[type[ev.Event]], bytes]
"""Kinds of events, and what they hold, a line each."""


_REMOVED = frozenset({"Nudged"})
"""Events of earlier versions that say nothing about this one."""


class BadLine(ValueError):
    """A line that isn't a journal's, or not whole; the text says what is wrong with it."""


class Unknown(ValueError):
    """A line of a newer version, of which nothing is known here."""


class Removed(ValueError):
    """A line of an earlier version, about something that there isn't any more."""


def line_of(event: ev.Event) -> bytes:
    """The event's line, with its end. Raises: TypeError, KeyError: it isn't of a kind that journals hold."""
    if isinstance(event, RequestBody | ResponseBody) and len(event.body) > _PIECE:
        return _line_of_long(event)
    return _PREFIXES[type(event)] + _encode(event)[1:] + b"\n"


def _line_of_long(event: RequestBody | ResponseBody) -> bytes:
    """Written a piece at a time: encoding holds the interpreter, for 40 ms where there are 16 MiB of text."""
    # In a string its quotation marks would have backslashes, so this is the field.
    before, after = _encode(replace(event, body="")).split(b'"body":""', 1)
    body = event.body
    pieces = (_encode(body[at : at + _PIECE])[1:-1] for at in range(0, len(body), _PIECE))
    return b"".join((_PREFIXES[type(event)], before[1:], b'"body":"', *pieces, b'"', after, b"\n"))


def encoded(events: list[ev.Event]) -> Encoded:
    """The costly half of :func:`lines_of`, for many events at once, at half the price a line.

    Raises: TypeError, ValueError: one of them can't be written down.
    """
    kinds = list(map(type, events))
    if not _PREFIXES.keys() >= set(kinds):
        raise TypeError("an event that journals don't hold")
    lines = _encoder.encode_lines(events)
    for usual, short in _USUAL:  # `replace` would look for each twice
        lines = short.join(lines.split(usual))
    return kinds, lines


def lines_of(found: Encoded) -> bytes:
    """The lines of events that :func:`encoded` took."""
    return b"".join(chain.from_iterable(_in_pieces(found)))


def each_line_of(found: Encoded) -> list[bytes]:
    """The lines of :func:`lines_of`, one by one."""
    return list(map(b"".join, _in_pieces(found)))


def _in_pieces(found: Encoded) -> Iterable[tuple[bytes, bytes, bytes]]:
    kinds, values = found
    # No line break is in an object but between two: JSON has none in its texts.
    bodies = values[1:-1].split(b"\n{")
    return zip(map(_PREFIXES.__getitem__, kinds), bodies, repeat(b"\n"))


def begin_of(kind: type[ev.Event]) -> bytes:
    """How the lines of events of this kind begin."""
    return _PREFIXES[kind]


def begins_of(kind: type[ev.Event]) -> tuple[bytes, ...]:
    """How they begin in journals of today, and of versions 2 and 1, for kinds that had the same name there."""
    return tuple(head + _PREFIXES[kind][_NAME_AT:] for head in (*_HEADS, _EARLIER_HEAD))


def event_of(line: bytes) -> ev.Event:
    """The event that a line holds. Raises: BadLine; Unknown; Removed."""
    if line.startswith((*_HEADS, _EARLIER_HEAD)):
        name = line[_NAME_AT : line.find(b'"', _NAME_AT)]
        decode = _decoder(name) if line.startswith(_HEADS) else _earlier_decoder(name)
        if decode is not None:
            try:
                return decode(line)
            except msgspec.ValidationError:
                pass  # an infinite number, perhaps; most lines have none
            except _UNREADABLE as error:
                raise BadLine(_cause(error)) from None
    return _slowly(line)


def events_of(line: bytes) -> tuple[ev.Event, ...]:
    """The events that a line holds, in order: one, as a rule. Raises: BadLine; Unknown; Removed."""
    event = event_of(line)
    mark, decode = _BESIDE.get(type(event), (b"", event_of))
    if not mark or mark not in line:
        return (event,)
    try:
        other = decode(line)
    except _UNREADABLE as error:
        raise BadLine(_cause(error)) from None
    return (other, event) if type(other) in BEGUN else (event, other)


def event_if_any(line: bytes) -> ev.Event | None:
    """The event that a line holds; None: it holds none that is known here."""
    try:
        return event_of(line)
    except (BadLine, Unknown, Removed):
        return None


def _slowly(line: bytes) -> ev.Event:
    """A line that is checked, has infinite numbers, fields in another order or another version, or is none at all."""
    try:
        values = msgspec.json.decode(line)
    except _UNREADABLE as error:
        raise BadLine(_cause(error)) from None
    if not isinstance(values, dict) or not isinstance(version := values.get("v"), int):
        raise BadLine("no line of a journal")
    name = values.get("event")
    if not isinstance(name, str):
        raise BadLine("holds no known event")
    if version < 2:
        name = earlier.today(name, values)
    made = KINDS.get(name)
    if made is None:
        if version > VERSION:
            raise Unknown(f"version {version}")
        if name in _REMOVED:
            raise Removed(name)
        raise BadLine("holds no known event")
    try:
        return _converted(values, made)
    except _UNREADABLE as error:
        if version > VERSION:
            raise Unknown(f"version {version}") from None
        raise BadLine(_cause(error)) from None


def version_of(line: bytes) -> int | None:
    """The version that a line says it is of; None: it isn't a journal's."""
    try:
        values = msgspec.json.decode(line)
    except _UNREADABLE:
        return None
    version = values.get("v") if isinstance(values, dict) else None
    return version if isinstance(version, int) else None


def settings_removed(line: bytes) -> list[str]:
    """Return the settings that a journal's first line has at a value that has no effect any more."""
    try:
        config = msgspec.json.decode(line)["config"]
        return [*removed_in(config)]
    except (*_UNREADABLE, KeyError, TypeError, AttributeError):
        return []


@lru_cache(maxsize=256)
def _decoder(name: bytes) -> Callable[[bytes], ev.Event] | None:
    """Made when the first line of its kind comes; None: there is no such kind, or its events are checked."""
    kind = KINDS.get(name.decode("ascii", "replace"))
    return None if kind is None or kind in _CHECKED else msgspec.json.Decoder(kind).decode


@lru_cache(maxsize=256)
def _earlier_decoder(name: bytes) -> Callable[[bytes], ev.Event] | None:
    return None if name.decode("ascii", "replace") in earlier.CHANGED_EVENTS else _decoder(name)


def _converted(values: dict[str, Any], kind: type[ev.Event]) -> ev.Event:
    if kind in _UNBOUNDED:
        _infinities()[kind].fill(values)
    event = msgspec.convert(values, kind, str_keys=True)
    if kind in _CHECKED:
        _check(event)
    return event


@cache
def _infinities() -> Mapping[type[ev.Event], Infinities]:
    return {kind: Infinities(kind) for kind in _UNBOUNDED}


def _cause(error: Exception) -> str:
    text = str(error)
    return "isn't whole" if "truncated" in text else f"isn't a line of a journal ({text})"


# --- Events whose values words and folds depend on --------------------------------------------------------------------


def _check(event: ev.Event) -> None:
    """Check values beyond their JSON types, since a damaged or hostile file may hold anything.

    Raises: ValidationError: HiveMind writes no such event.
    """
    if isinstance(event, Carried):
        for ticket in event.state.tickets:
            if ticket.state not in TICKET_STATES:
                raise msgspec.ValidationError("Carried has a request in no state that there is")
        return
    try:
        if isinstance(event, ev.Commanded):
            _check_depth(event.arguments)
            command = _COMMANDS.get(event.name)
            if command is not None:
                arguments = dict(event.arguments)
                if "priority" in arguments:  # the event has its name
                    arguments["priority"] = Priority[str(arguments["priority"]).upper()]
                msgspec.convert(arguments, command)
        lines.line_of(event, 0.0)
    except msgspec.ValidationError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise msgspec.ValidationError(f"{type(event).__name__} doesn't say that") from None


def _check_depth(value: object, left: int = _DEEPEST) -> None:
    """Raises: ValidationError: it is nested too deep to be encoded or shown again."""
    if not left:
        raise msgspec.ValidationError("nested too deep")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(each, left - 1)
