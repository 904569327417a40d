"""The log of a detached proxy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hivemind.host.detached.log import earlier, followed, last_lines
from hivemind.host.detached.order import Failed, Started, StartReport, answer_in
from hivemind.store.locks import is_held

WRITES = """\
import sys
from pathlib import Path
from hivemind.host.detached.log import ProxyLog
from hivemind.store.locks import is_held
path = Path(sys.argv[1])
log = ProxyLog(path, 20)
print("one", flush=True)
log.trim()
print("a line that is too long", file=sys.stderr, flush=True)
log.trim()
print(is_held(path), flush=True)
"""


def test_begins_anew_when_too_long(tmp_path: Path) -> None:
    """Both outputs go there; a file that is too long becomes the earlier one, and the lines go on in a new one."""
    path = tmp_path / "state" / "proxy-1.log"
    subprocess.run([sys.executable, "-c", WRITES, str(path)], check=True)
    assert earlier(path).read_text() == "one\na line that is too long\n"
    assert path.read_text() == "True\n"
    assert not is_held(path)
    assert last_lines(path, 2) == (b"a line that is too long\nTrue\n", 5)
    assert last_lines(path, 0) == (b"", 5)


def test_another_writer_trims_nothing(tmp_path: Path) -> None:
    """Only who writes alone may: another proxy's lines would go to a file that nobody reads."""
    path = tmp_path / "proxy-1.log"
    with path.open("ab") as other:
        import fcntl

        fcntl.flock(other, fcntl.LOCK_EX)
        assert is_held(path)
        subprocess.run([sys.executable, "-c", WRITES, str(path)], check=True)
    assert not earlier(path).exists()
    assert path.read_text() == "one\na line that is too long\nTrue\n"


def test_followed(tmp_path: Path) -> None:
    """What is written comes, also after a new file took the place of the old one."""
    path = tmp_path / "log"
    path.write_text("old\n")
    lines = followed(path, 4, 0.001)
    path.write_text("old\nnew\n")
    assert next(lines) == b"new\n"
    path.replace(earlier(path))
    path.write_text("anew\n")
    assert next(lines) == b"anew\n"


def test_answers() -> None:
    """What came before the answer doesn't matter; without one the last line says what happened."""
    for answer in (Started("http://127.0.0.1:1", "t", "log"), Failed("port 1 is in use", 1, True)):
        read, write = os.pipe()
        StartReport(write).send(answer)
        with open(read, "rb") as pipe:
            assert answer_in(b"a warning\n" + pipe.read()) == answer
    assert answer_in(b"Traceback\nNameError: x\n") == "NameError: x"
    assert answer_in(b"") == ""
