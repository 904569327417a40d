"""A journal's index: the state of the world at many moments, and a summary of what happened between them.

A file beside the journal, of frames that are only ever added to. Each is either whole or not there: it has its lengths
before it and a digest of what follows. The first frame says what the index is of; each other one is a block, which ends
at a place in the journal, and mostly holds the world there, packed. An index that doesn't fit the journal, or was
made by another version of this program, is made anew. Its writer holds a lock on it.
"""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from hivemind import __version__
from hivemind.journal.index.activity import Mark, Row
from hivemind.journal.read.cursor import JournalPlace
from hivemind.journal.read.damage import Damage
from hivemind.packing import decompressed, zstd
from hivemind.records import replace
from hivemind.store.locks import take_lock
from hivemind.world.state import WorldState

SUFFIX = ".index"
FORMAT = 2
_FRAME = struct.Struct("<4sII16s16s")
"""A mark, how long the block is and how long its world, and a digest of each."""
_MAGIC = b"HMix"
_LONGEST = 256 << 20
"""Bytes of a frame, packed or not."""
_TAIL = 256
"""Bytes before a place by which it is known again."""
_HEAD = 4096
T = TypeVar("T")


class IndexHeader(Struct, frozen=True):
    """Which journal an index belongs to, and what made it."""

    format: int
    program: str
    priced: bool
    head: bytes
    """Digest of the journal's first bytes."""
    nonce: bytes
    """Random, so that an index begun anew is noticed."""


class PartStamp(Struct, frozen=True):
    """The size, time and end of a part of the journal when a block was written."""

    name: str
    size: int
    mtime_ns: int
    tail: bytes
    """Digest of what is just before the block's end."""


class Block(Struct, frozen=True):
    """A summary of the journal between the end of the last block (or the beginning) and this one's."""

    place: JournalPlace
    """Its end."""
    at: float
    """The latest moment in it, or before."""
    events: int
    bytes: int
    seen: PartStamp
    damage: Damage
    """Since the journal's beginning."""
    marks: list[Mark] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


class StoredBlock(Struct, frozen=True):
    """A block that was read, and where the state at its end is stored."""

    block: Block
    offset: int
    length: int
    """Bytes of the world, packed; 0: it has none."""
    digest: bytes
    """Of these."""


class Stale(ValueError):
    """The file isn't an index of that journal."""


def index_path(first: Path) -> Path:
    """Return where the index of the journal with this first part is looked for."""
    return first.with_name(first.name + SUFFIX)


def header_of(first: Path, *, priced: bool, nonce: bytes = b"") -> IndexHeader:
    """Return the header of this program's index of the journal with this first part. Raises: OSError."""
    with first.open("rb") as file:
        return IndexHeader(FORMAT, __version__, priced, digest(file.readline(_HEAD)), nonce)


def open_index(path: Path, of: IndexHeader, parts: tuple[Path, ...]) -> tuple[IndexReader, list[StoredBlock]]:
    """Return the index at this path, and its blocks. Raises: OSError: there is none; Stale: it doesn't fit."""
    reader = IndexReader(path)
    try:
        blocks = reader.more()
        same = reader.of is not None and replace(reader.of, nonce=b"") == replace(of, nonce=b"")
        if not same or not fits([stored.block for stored in blocks], parts):
            raise Stale
    except BaseException:
        reader.close()
        raise
    return reader, blocks


def seen_at(part: Path, offset: int) -> PartStamp:
    """Return the part's present size, time and digest before this byte. Raises: OSError."""
    with part.open("rb") as file:
        stat = os.fstat(file.fileno())
        file.seek(max(0, offset - _TAIL))
        return PartStamp(part.name, stat.st_size, stat.st_mtime_ns, digest(file.read(min(offset, _TAIL))))


def fits(blocks: list[Block], parts: tuple[Path, ...]) -> bool:
    """Return whether the journal is unchanged since these blocks were made, or has only grown."""
    last = {block.place.part: block for block in blocks}
    for part, block in last.items():
        if part >= len(parts) or parts[part].name != block.seen.name:
            return False
        try:
            now = seen_at(parts[part], block.place.offset)
        except OSError:
            return False
        grown = now.size > block.seen.size and part == max(last)
        same = (now.size, now.mtime_ns) == (block.seen.size, block.seen.mtime_ns)
        if now.tail != block.seen.tail or not (grown or same):
            return False
    return True


def digest(data: bytes) -> bytes:
    """Return a digest of 16 bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


class IndexWriter:
    """Adds to an index, which it locks."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError: the file can't be written; BlockingIOError: another process does."""
        self._fd = take_lock(path, os.O_NOFOLLOW)
        self.size = 0

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def begin(self, of: IndexHeader) -> None:
        """Begin the index anew. Raises: OSError."""
        self.cut(0)
        self._add(msgspec.msgpack.encode(of), b"")

    def cut(self, size: int) -> None:
        """Remove everything after this byte. Raises: OSError."""
        os.ftruncate(self._fd, size)
        os.lseek(self._fd, size, os.SEEK_SET)
        self.size = size

    def add(self, block: Block, state: WorldState | None) -> int:
        """Write a block, and return the size of its packed state. Raises: OSError: nothing was written."""
        world = b"" if state is None else zstd.compress(msgspec.msgpack.encode(state))
        self._add(zstd.compress(msgspec.msgpack.encode(block)), world)
        return len(world)

    def _add(self, what: bytes, world: bytes) -> None:
        frame = _FRAME.pack(_MAGIC, len(what), len(world), digest(what), digest(world)) + what + world
        done = 0
        try:
            while done < len(frame):
                done += os.write(self._fd, memoryview(frame)[done:])
        except OSError:
            self.cut(self.size)
            raise
        self.size += len(frame)


class IndexReader:
    """Reads an index, to which its writer may add meanwhile."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError: there is none, or it can't be read."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self.size = 0
        """Bytes that were read and checked."""
        self.of: IndexHeader | None = None
        self._head = b""

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    @property
    def changed(self) -> bool:
        """Whether the index was begun anew or cut since it was read."""
        if not self.size:
            return False
        return os.fstat(self._fd).st_size < self.size or os.pread(self._fd, len(self._head), 0) != self._head

    def more(self) -> list[StoredBlock]:
        """Return the blocks added since the last call. Raises: Stale: this program can't read it; OSError."""
        if self.of is None:
            found = self._frame()
            if found is None:
                return []
            self.of = _decoded(found[0], IndexHeader)
            if (self.of.format, self.of.program) != (FORMAT, __version__):
                raise Stale
            self._head = os.pread(self._fd, self.size, 0)
        kept = []
        while (found := self._frame()) is not None:
            what, length, known = found
            kept.append(StoredBlock(_unpacked(what, Block), self.size - length, length, known))
        return kept

    def world(self, kept: StoredBlock) -> WorldState:
        """Return the state at the block's end. Raises: Stale; OSError."""
        packed = os.pread(self._fd, kept.length, kept.offset)
        if digest(packed) != kept.digest:
            raise Stale
        return _unpacked(packed, WorldState)

    def _frame(self) -> tuple[bytes, int, bytes] | None:
        """Return the next block, the size of its state and its digest; None: there is none yet. Raises: Stale."""
        head = os.pread(self._fd, _FRAME.size, self.size)
        if len(head) < _FRAME.size:
            return None
        magic, length, world, known, worlds = _FRAME.unpack(head)
        if magic != _MAGIC or length + world > _LONGEST:
            raise Stale
        end = self.size + _FRAME.size + length + world
        what = os.pread(self._fd, length, self.size + _FRAME.size)
        if os.fstat(self._fd).st_size < end:
            return None
        if digest(what) != known:
            raise Stale
        self.size = end
        return what, world, worlds


def _unpacked(data: bytes, kind: type[T]) -> T:
    try:
        return _decoded(decompressed(data, _LONGEST), kind)
    except ValueError:
        raise Stale from None


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError:
        raise Stale from None
