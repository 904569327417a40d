"""Input with many small parts, parsed a little in each turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hivemind.upstream.input_turns import SLICE, TURN_PARTS, InputTurns

READ = 256 << 10
AT_MOST = 2 * (TURN_PARTS + SLICE)
"""Parts of one turn, where each byte is one: what comes in it, and what had to wait."""


class Reader:
    """Finds a part in every so many bytes."""

    def __init__(self, size: int = 1, *, on_parse: Callable[[], None] = lambda: None) -> None:
        self.backlog = memoryview(b"")
        self.parts = 0
        self.parsed = b""
        self.lasts = 0
        self.held = False
        self.aborted = False
        self._size = size
        self._on_parse = on_parse

    def parse(self, data: bytes | memoryview, *, last: bool) -> None:
        self.parts += len(data) // self._size
        self.parsed += data
        self.lasts += last
        self._on_parse()

    def unsplit(self) -> int:
        return 0

    def backlog_changed(self) -> None:
        self.held = bool(self.backlog)

    def abort(self) -> None:
        self.aborted = True


async def turns_until(true: Callable[[], bool], parts: Callable[[], int]) -> list[int]:
    """How many parts were found in each turn of the loop."""
    taken, before = [], parts()
    while not true():
        await asyncio.sleep(0)
        taken.append(parts() - before)
        before = parts()
    return taken


async def test_many_parts_take_many_turns() -> None:
    """A reader of single bytes gets all of them in order, a few in each turn, and isn't read meanwhile."""
    turns, reader, data = InputTurns(), Reader(), bytes(range(256)) * (READ // 256)
    turns.read(reader, data)
    assert reader.held
    assert reader.parts <= TURN_PARTS + SLICE
    taken = await turns_until(lambda: not reader.held, lambda: reader.parts)
    assert (reader.parsed, reader.lasts) == (data, 1)
    assert max(taken) <= AT_MOST


async def test_few_parts_take_one_turn() -> None:
    """What is long, but of large parts, is parsed at once."""
    turns, reader = InputTurns(), Reader(SLICE)
    turns.read(reader, bytes(READ))
    assert (len(reader.parsed), reader.lasts, reader.held) == (READ, 1, False)


async def test_a_turn_is_shared() -> None:
    """Sixteen readers take no more of a turn than one does, and all go on in every few turns."""
    turns, readers = InputTurns(), [Reader() for _ in range(16)]
    for reader in readers:
        turns.read(reader, bytes(READ))
    assert sum(reader.parts for reader in readers) <= TURN_PARTS + SLICE
    await turns_until(lambda: all(reader.parts for reader in readers), lambda: 0)
    assert max(reader.parts for reader in readers) <= 2 * (TURN_PARTS + SLICE)
    taken = await turns_until(
        lambda: not any(reader.held for reader in readers), lambda: sum(reader.parts for reader in readers)
    )
    assert max(taken) <= AT_MOST
    assert all(len(reader.parsed) == READ for reader in readers)


async def test_what_is_short_does_not_wait() -> None:
    """A short request is parsed though others have used up the turn."""
    turns, long, short = InputTurns(), Reader(), Reader()
    turns.read(long, bytes(READ))
    turns.read(short, b"x" * 200)
    assert (short.parsed, long.held) == (b"x" * 200, True)


async def test_the_rest_of_an_ended_connection_is_dropped() -> None:
    """Its backlog is parsed no more, and the others' is."""
    turns, ended, other = InputTurns(), Reader(), Reader()
    turns.read(ended, bytes(READ))
    turns.read(other, bytes(READ))
    ended.backlog, parts = memoryview(b""), ended.parts
    await turns_until(lambda: not other.held, lambda: 0)
    assert (ended.parts, len(other.parsed)) == (parts, READ)


async def test_what_tls_had_decrypted_follows() -> None:
    """Data that comes though nothing is read is parsed after what came before."""
    turns, reader = InputTurns(), Reader()
    turns.read(reader, b"a" * READ)
    turns.read(reader, b"b" * READ)
    await turns_until(lambda: not reader.held, lambda: 0)
    assert reader.parsed == b"a" * READ + b"b" * READ


async def test_a_parser_that_fails() -> None:
    """Its connection is aborted, the loop's handler is told, and others go on."""
    turns, other, told = InputTurns(), Reader(), []

    def fail() -> None:
        if broken.parts > TURN_PARTS + SLICE:
            raise ZeroDivisionError

    broken = Reader(on_parse=fail)
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    turns.read(broken, bytes(READ))
    turns.read(other, bytes(READ))
    await turns_until(lambda: not other.held, lambda: 0)
    assert broken.aborted
    assert not broken.backlog
    assert [type(each) for each in told] == [ZeroDivisionError]


def test_each_loop_has_its_own() -> None:
    """Connections of one loop share their turns; those of another don't."""
    loops = [asyncio.new_event_loop() for _ in range(2)]
    first, again, second = InputTurns.of(loops[0]), InputTurns.of(loops[0]), InputTurns.of(loops[1])
    for loop in loops:
        loop.close()
    assert first is again
    assert first is not second


@pytest.mark.parametrize("unsplit", [0, READ])
async def test_a_body_with_a_length_is_one_part(unsplit: int) -> None:
    """Where the parser takes all that has come in one piece, it gets it in one."""

    class Whole(Reader):
        calls = 0

        def parse(self, data: bytes | memoryview, *, last: bool) -> None:
            self.calls += 1
            super().parse(data, last=last)

        def unsplit(self) -> int:
            return unsplit

    reader = Whole(READ)
    InputTurns().read(reader, bytes(READ))
    assert reader.calls == (1 if unsplit else READ // SLICE)
