"""The file of a part: its rights, its lock, and whole lines whatever the disk does."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from journal.disks import mounted

from hivemind.journal.write.segment import Closed, JournalPart
from hivemind.store.locks import is_held

REAL_WRITE = os.write


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 kB."""
    with mounted(tmp_path / "small", "16k") as folder:
        yield folder


def test_rights(tmp_path: Path) -> None:
    """The owner alone reads it, and the folder, whatever the mask is."""
    before = os.umask(0)
    try:
        JournalPart(tmp_path / "state" / "journals" / "a.jsonl").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "state" / "journals" / "a.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state" / "journals").stat().st_mode) == 0o700


def test_never_another_s_file(tmp_path: Path) -> None:
    """A file that is there isn't written to."""
    (tmp_path / "a.jsonl").write_text("mine\n")
    with pytest.raises(FileExistsError):
        JournalPart(tmp_path / "a.jsonl")


def test_locked_while_it_is_written(tmp_path: Path) -> None:
    """Anybody can tell whether its writer lives."""
    path = tmp_path / "a.jsonl"
    assert not is_held(path)
    part = JournalPart(path)
    assert is_held(path)
    part.close()
    assert not is_held(path)


def test_a_full_disk(small: Path) -> None:
    """What fits is there in whole lines; when there is room again, the next line follows the last."""
    (small / "ballast").write_bytes(b"x" * 8000)
    part = JournalPart(small / "a.jsonl")
    lines = b"".join(b"line %06d\n" % number for number in range(2000))
    done, error = part.append(lines)
    assert error is not None
    assert error.errno == errno.ENOSPC
    assert 0 < done < len(lines)
    assert (small / "a.jsonl").read_bytes() == lines[:done]
    assert done % len(b"line 000000\n") == 0
    (small / "ballast").unlink()
    assert part.append(lines[done : done + 24]) == (24, None)
    assert (small / "a.jsonl").read_bytes() == lines[: done + 24]
    part.close()


def torn(after: int) -> Callable[[int, bytes], int]:
    """A write that takes so many bytes, and then refuses."""
    left = after

    def write(fd: int, data: bytes) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.EIO, "input/output error")
        taken = min(left, len(data))
        left -= taken
        return REAL_WRITE(fd, bytes(data)[:taken])

    return write


def test_half_a_line_that_cannot_be_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended before the next one begins, so that only the half is lost to readers, and nothing is written twice
    but that."""
    part = JournalPart(tmp_path / "a.jsonl")

    def refuse(fd: int, size: int) -> None:
        raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr(os, "ftruncate", refuse)
    monkeypatch.setattr(os, "write", torn(7))
    done, error = part.append(b"one\ntwo and more\n")
    assert (done, error is None) == (4, False)
    monkeypatch.setattr(os, "write", REAL_WRITE)
    assert part.append(b"two and more\n") == (13, None)
    assert (tmp_path / "a.jsonl").read_bytes() == b"one\ntwo\ntwo and more\n"
    part.close()


def test_short_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that takes a few bytes at a time gets all of them."""
    monkeypatch.setattr(os, "write", lambda fd, data: REAL_WRITE(fd, bytes(data)[:3]))
    part = JournalPart(tmp_path / "a.jsonl")
    assert part.append(b"hello\nworld\n") == (12, None)
    part.close()
    assert (tmp_path / "a.jsonl").read_bytes() == b"hello\nworld\n"


@pytest.mark.parametrize("by", ["removed", "moved", "replaced", "folder"])
def test_a_file_that_is_gone(tmp_path: Path, by: str) -> None:
    """It is noticed, rather than written where nobody finds it."""
    path = tmp_path / "journals" / "a.jsonl"
    part = JournalPart(path)
    if by == "removed":
        path.unlink()
    elif by == "moved":
        path.rename(tmp_path / "b.jsonl")
    elif by == "replaced":
        other = tmp_path / "journals" / "c"
        other.write_text("")
        other.rename(path)
    else:
        path.parent.rename(tmp_path / "elsewhere")
    done, error = part.append(b"line\n")
    assert done == 0
    assert isinstance(error, Closed)
    part.close()


def test_a_file_that_somebody_emptied(tmp_path: Path) -> None:
    """It takes nothing more: what would follow couldn't be read without what was there."""
    path = tmp_path / "a.jsonl"
    part = JournalPart(path)
    part.append(b"one\n")
    os.truncate(path, 2)
    done, error = part.append(b"two\n")
    part.close()
    assert (done, type(error), path.read_bytes()) == (0, Closed, b"on")


def test_a_file_that_somebody_else_writes_to(tmp_path: Path) -> None:
    """No line of ours goes on from what isn't ours."""
    path = tmp_path / "a.jsonl"
    part = JournalPart(path)
    part.append(b"one\n")
    with path.open("ab") as other:
        other.write(b"garbage")
    assert part.append(b"two\n") == (4, None)
    assert part.append(b"three\n") == (6, None)
    part.close()
    assert path.read_bytes() == b"one\ngarbage\ntwo\nthree\n"


@pytest.mark.parametrize(("room", "closed"), [(100_000, True), (100, False)])
def test_files_that_may_only_be_so_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, closed: bool
) -> None:
    """Another one is to be begun, unless it would hold next to nothing."""

    def write(fd: int, data: bytes) -> int:
        left = room - os.fstat(fd).st_size
        if left <= 0:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return REAL_WRITE(fd, bytes(data)[:left])

    monkeypatch.setattr(os, "write", write)
    part = JournalPart(tmp_path / "a.jsonl")
    done, error = part.append(b"12345678\n" * 20_000)
    part.close()
    assert done == room // 9 * 9
    assert isinstance(error, OSError)
    assert isinstance(error, Closed) is closed


def test_locked_while_another_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lists journals asks each file whether it is locked, which for a moment keeps others from it."""
    refused: list[int] = []

    def busy_at_first(fd: int, operation: int) -> None:
        if not refused and operation & fcntl.LOCK_EX:
            refused.append(fd)
            raise BlockingIOError(errno.EWOULDBLOCK, "busy")
        flock(fd, operation)

    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", busy_at_first)
    part = JournalPart(tmp_path / "a.jsonl")
    try:
        assert refused
        assert is_held(part.path)
    finally:
        part.close()
    assert not is_held(part.path)
