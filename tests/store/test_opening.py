"""Which file it is, who may read it, and what can't be used."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest
from store.records import agent, batch

from hivemind.errors import UsageError
from hivemind.store.schema import SavedBatch
from hivemind.store.store import Store, opened


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def put(folder: Path, *batches: SavedBatch, port: int = 8765) -> None:
    """Have them written by a proxy that comes to its end."""
    with opened(folder, port, 0.0) as store:
        assert store is not None
        store.put(SavedBatch())
        store.start()
        for each in batches:
            store.put(each)


def names(folder: Path, port: int = 8765) -> list[str]:
    """Agents that the next proxy there finds."""
    with opened(folder, port, 0.0) as store:
        assert store is not None
        return [each.name for each in store.take().agents]


def test_the_same_port_finds_the_same_state(tmp_path: Path) -> None:
    """Port 0 too, which stands for itself; another port has another state."""
    for port in (8765, 0):
        put(tmp_path, batch(agent(f"on {port}")), port=port)
    assert (names(tmp_path), names(tmp_path, 0), names(tmp_path, 1)) == (["on 8765"], ["on 0"], [])
    assert {path.name for path in tmp_path.glob("*.db")} == {"proxy-8765.db", "proxy-0.db", "proxy-1.db"}


def test_for_its_owner_alone(tmp_path: Path) -> None:
    """Folder and files, those that SQLite makes beside it too, whatever the mask of the process and the file's own."""
    folder, old = tmp_path / "made" / "state", os.umask(0)
    try:
        with opened(folder, 1, 0.0) as store:
            assert store is not None
            store.put(batch(agent()))
            store.start()
            store.close(clean=False)
            store = Store(store.path, 0.0)
            assert {path.name for path in folder.iterdir()} > {"proxy-1.db", "proxy-1.lock", "proxy-1.db-wal"}
            assert {mode(path) for path in folder.iterdir()} == {0o600}
            store.close(clean=False)
        assert mode(folder) == 0o700
        (folder / "proxy-1.db").chmod(0o644)
        with opened(folder, 1, 0.0):
            assert {mode(path) for path in folder.iterdir()} == {0o600}
    finally:
        os.umask(old)


def test_two_at_a_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each has a file of its own, the later one says which, and finds it again when it is the later one again."""
    caplog.set_level(logging.INFO)
    with opened(tmp_path, 1, 0.0) as first, opened(tmp_path, 1, 0.0) as second:
        assert first is not None
        assert second is not None
        assert (first.path.name, second.path.name) == ("proxy-1.db", "proxy-1-2.db")
        assert "another proxy uses proxy-1.db" in caplog.text
        assert str(second.path) in caplog.text
        second.put(batch(agent("second")))
        second.start()
    with opened(tmp_path, 1, 0.0) as first, opened(tmp_path, 1, 0.0) as second:
        assert second is not None
        assert [each.name for each in second.take().agents] == ["second"]


def test_the_end_of_a_run(tmp_path: Path) -> None:
    """Leaving in good order ends the run; leaving with an exception doesn't, and neither does one that never began."""

    def clean() -> bool:
        with opened(tmp_path, 1, 0.0) as store:
            assert store is not None
            return store.take().clean

    put(tmp_path, batch(agent()), port=1)
    assert clean()
    with contextlib.suppress(KeyError), opened(tmp_path, 1, 0.0) as store:
        assert store is not None
        store.put(batch(agent()))
        store.start()
        raise KeyError
    assert [clean(), clean()] == [False, False]


def garbage(path: Path) -> None:
    path.write_bytes(b"no database at all\n" * 100)


def newer(path: Path) -> None:
    Store(path, 0.0).close(clean=False)
    with contextlib.closing(sqlite3.connect(path)) as found:
        found.execute("PRAGMA user_version = 9")


def foreign(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as found:
        found.execute("CREATE TABLE recipes (id)")
        found.commit()


def unreadable(path: Path) -> None:
    store = Store(path, 0.0)
    store.put(batch(agent("zoe")))
    store.start()
    store.close(clean=True)
    with contextlib.closing(sqlite3.connect(path)) as found:
        found.execute("UPDATE agents SET record = 'x'")
        found.commit()


def damaged(path: Path) -> None:
    store = Store(path, 0.0)
    store.put(batch(*(agent(f"{number:0100}") for number in range(100))))
    store.start()
    store.close(clean=True)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (garbage, r"can't be used \(file is not a database\)"),
        (newer, "was written by a newer HiveMind"),
        (foreign, "is the database of another program"),
        (unreadable, r"has a record of agent 'zoe' that can't be read \(.*\)"),
        (damaged, r"can't be used \(.*malformed.*\)"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, spoil: object, why: str) -> None:
    """One line names it and says what to do, and it stays as it was."""
    path = tmp_path / "proxy-8765.db"
    assert callable(spoil)
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=f"^{path} {why}: move it away.*--state-dir$"), opened(tmp_path, 8765, 0.0):
        pytest.fail("it can't be used")
    assert path.read_bytes() == before
    path.rename(tmp_path / "elsewhere.db")
    assert names(tmp_path) == []


def test_a_database_that_somebody_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program, such as SQLite's shell: what stands in it isn't passed over."""
    monkeypatch.setattr("hivemind.store.store.BUSY_S", 0.0)
    put(tmp_path, batch(agent()))
    with contextlib.closing(sqlite3.connect(tmp_path / "proxy-8765.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UsageError, match="database is locked"), opened(tmp_path, 8765, 0.0):
            pytest.fail("somebody holds it")


def test_no_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where no folder can be made the proxy goes on without, and says so once."""
    (tmp_path / "file").touch()
    with opened(tmp_path / "file" / "state", 1, 0.0) as store:
        assert store is None
    assert len(caplog.records) == 1
    assert "can't be kept" in caplog.text
    assert "--state-dir" in caplog.text


async def test_a_file_that_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing that is written would be found again, which is told, once; the other file stays as it is."""
    with opened(tmp_path, 1, 0.0) as store:
        assert store is not None
        store.put(batch(agent()))
        store.start()
        await store.settled()
        other = tmp_path / "other"
        other.touch()
        other.replace(store.path)
        store.put(batch(agent("b")))
    told = [record.getMessage() for record in caplog.records]
    assert [("another file is in its place" in line, "couldn't be written" in line) for line in told] == [
        (True, False),
        (False, True),
    ]
    assert store.path.read_bytes() == b""
    store._connection.close()  # which the process's end does: it removes SQLite's log by name, which is the other's now


@pytest.mark.parametrize("folder", [False, True], ids=["the file", "its folder"])
async def test_a_file_that_is_removed(folder: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All of it is written anew, for its owner's eyes alone, and what comes later goes into that file; no other proxy
    can take it. It is told once."""
    state = tmp_path / "state"
    with opened(state, 1, 0.0) as store:
        assert store is not None
        store.start()
        store.put(batch(agent("a")))
        await store.settled()
        if folder:
            shutil.rmtree(state)
        else:
            for path in state.glob("*.db*"):
                path.unlink()
        for name in ("b", "c"):
            store.put(batch(agent(name)))
            await store.settled()
        assert store.error is None
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
        with opened(state, 1, 0.0) as other:
            assert other is not None
            assert other.path != store.path
    assert sorted(path.name for path in state.glob("*1.db*")) == ["proxy-1.db"]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{store.path} was removed while it was in use, and is written anew: nothing is lost"
    ]
    with opened(state, 1, 0.0) as again:
        assert again is not None
        assert [each.name for each in again.take().agents] == ["a", "b", "c"]


async def test_a_removed_file_whose_log_stays(tmp_path: Path) -> None:
    """What is left of SQLite's log belongs to the old file, and spoils the new one nowhere."""
    with opened(tmp_path, 1, 0.0) as store:
        assert store is not None
        store.start()
        for number in range(20):
            store.put(batch(agent(f"a{number:02}")))
            await store.settled()
        store.path.unlink()
        store.put(batch(agent("b")))
        await store.settled()
    with contextlib.closing(sqlite3.connect(store.path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with opened(tmp_path, 1, 0.0) as again:
        assert again is not None
        assert len(again.take().agents) == 21


def emptied(folder: Path, how: str) -> Path:
    """The state of a proxy that ended, of which nothing is left but the file."""
    put(folder, batch(agent("a")))
    path = folder / "proxy-8765.db"
    path.unlink()
    if how == "no tables":
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA user_version = 0")
            database.execute("VACUUM")
    else:
        path.touch()
    return path


@pytest.mark.parametrize("how", ["zero bytes", "no tables"])
def test_a_file_that_was_emptied_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str) -> None:
    """In one line that says what is gone; the proxy goes on."""
    path = emptied(tmp_path, how)
    assert names(tmp_path) == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"{path} was there but empty, so all usage, budgets" in caplog.text
    assert "\n" not in caplog.records[0].getMessage()
    caplog.clear()
    put(tmp_path, batch(agent("b")))
    assert (names(tmp_path), caplog.text) == (["b"], "")


def test_a_first_start_is_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """There was no file, so nothing is gone."""
    assert names(tmp_path) == []
    assert caplog.text == ""


def test_what_the_log_of_an_emptied_file_holds_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SQLite would delete it."""
    path = emptied(tmp_path, "zero bytes")
    log = path.with_name("proxy-8765.db-wal")
    for held, kept in ((b"pages", "proxy-8765.db-wal.lost"), (b"more", "proxy-8765.db-wal.lost-2")):
        path.write_bytes(b"")
        log.write_bytes(held)
        assert names(tmp_path) == []
        assert (tmp_path / kept).read_bytes() == held
        assert mode(tmp_path / kept) == 0o600
        assert f"(what its log still held is in {kept})" in caplog.text


def test_a_file_that_is_mostly_empty_is_made_smaller(tmp_path: Path) -> None:
    """What is forgotten is given back to the disk; sums stay as they were."""
    made_up = [f"made-up-{n}" for n in range(3000)]
    put(tmp_path, batch(agent("", tokens=7), *map(agent, made_up)))
    path = tmp_path / "proxy-8765.db"
    large = path.stat().st_size
    put(tmp_path, SavedBatch(forgotten=frozenset(made_up[100:])))
    put(tmp_path)
    assert path.stat().st_size < large / 10
    assert not path.with_name(path.name + "-wal").exists()
    with opened(tmp_path, 8765, 0.0) as store:
        assert store is not None
        agents = store.take().agents
    assert len(agents) == 101
    assert [each.own.ever.tokens for each in agents if not each.name] == [7]


def test_a_file_that_cannot_be_made_smaller_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried once; what is to be kept isn't in danger, so that nothing warns of it."""
    caplog.set_level(logging.WARNING)
    tries = []

    def full(_: sqlite3.Connection) -> None:
        tries.append(1)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("hivemind.store.schema.shrink", full)
    put(tmp_path, batch(agent("a")), batch(agent("b")))
    assert (names(tmp_path), len(tries), caplog.text) == (["a", "b"], 1, "")
