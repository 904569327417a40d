"""The file of a part: its rights, its lock, and whole lines whatever the disk does."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hivemind.journal.part import Part, Removed, being_written

REAL_WRITE = os.write


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_rights(tmp_path: Path) -> None:
    """The owner alone reads it, and the folder, whatever the mask is."""
    before = os.umask(0)
    try:
        Part(tmp_path / "state" / "journals" / "a.jsonl").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "state" / "journals" / "a.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state" / "journals").stat().st_mode) == 0o700


def test_never_another_s_file(tmp_path: Path) -> None:
    """A file that is there isn't written to."""
    (tmp_path / "a.jsonl").write_text("mine\n")
    with pytest.raises(FileExistsError):
        Part(tmp_path / "a.jsonl")


def test_locked_while_it_is_written(tmp_path: Path) -> None:
    """Anybody can tell whether its writer lives."""
    path = tmp_path / "a.jsonl"
    assert not being_written(path)
    part = Part(path)
    assert being_written(path)
    part.close()
    assert not being_written(path)


def test_a_full_disk(small: Path) -> None:
    """What fits is there in whole lines; when there is room again, the next line follows the last."""
    (small / "ballast").write_bytes(b"x" * 8000)
    part = Part(small / "a.jsonl")
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
    part = Part(tmp_path / "a.jsonl")

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
    part = Part(tmp_path / "a.jsonl")
    assert part.append(b"hello\nworld\n") == (12, None)
    part.close()
    assert (tmp_path / "a.jsonl").read_bytes() == b"hello\nworld\n"


@pytest.mark.parametrize("by", ["removed", "moved", "replaced", "folder"])
def test_a_file_that_is_gone(tmp_path: Path, by: str) -> None:
    """It is noticed, rather than written where nobody finds it."""
    path = tmp_path / "journals" / "a.jsonl"
    part = Part(path)
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
    assert isinstance(error, Removed)
    part.close()


def test_a_file_that_somebody_emptied(tmp_path: Path) -> None:
    """It goes on at its new end."""
    path = tmp_path / "a.jsonl"
    part = Part(path)
    part.append(b"one\n")
    os.truncate(path, 0)
    part.append(b"two\n")
    part.close()
    assert path.read_bytes() == b"two\n"
