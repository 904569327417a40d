"""Checkpoints as files: written whole, read back, and removed when they are too many."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest
from agents.kept import AT, BODY, checkpoint, keep
from hypothesis import given
from hypothesis import strategies as st

from hivemind.store import atomic, checkpoints
from hivemind.store.checkpoints import checkpoint_name, conversation, folder_in, latest, listed, prune, read, write


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Every field comes back, and the conversation byte for byte."""
    made = checkpoint()
    size = write(tmp_path, made, BODY)
    (found,), wrong = listed(tmp_path)
    assert (found.checkpoint, wrong, found.size) == (made, [], size)
    assert conversation(found) == BODY


def test_the_file_is_json(tmp_path: Path) -> None:
    """Any program can read it, the conversation as an object in it, and nobody but its owner."""
    path = keep(tmp_path)
    held = json.loads(path.read_bytes())
    assert (held["agent"], held["conversation"]["model"]) == ("alice", "m")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("body", [None, b"[]", b"\xff\xfe not text", b'{"model": broken}'])
def test_whatever_the_body_is(tmp_path: Path, body: bytes | None) -> None:
    """What is given back is JSON, or nothing where there was no body."""
    found = read(keep(tmp_path, body=body))
    given_back = conversation(found)
    assert (given_back is None) is (body is None)
    json.loads(given_back or b"null")


@pytest.mark.parametrize("cut", [1, 3, 40, len(BODY) + 20, 300])
def test_one_that_is_torn(tmp_path: Path, cut: int) -> None:
    """A file that lost its end is told, and the others are listed all the same."""
    torn, good = keep(tmp_path, "torn"), keep(tmp_path, "good")
    torn.write_bytes(torn.read_bytes()[:-cut])
    found, wrong = listed(folder_in(tmp_path))
    assert [each.path for each in found] == [good]
    assert len(wrong) == 1
    assert wrong[0].startswith(f"{torn.name}: isn't ")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("notes.txt", "buy milk", "isn't a checkpoint"),
        ("empty.json", "", "isn't a checkpoint"),
        ("list.json", "[1, 2]", "isn't a checkpoint"),
        ("deep.json", "[" * 5000, "isn't a checkpoint"),
        ("other.json", '{"format": 1, "name": 3}', "isn't a checkpoint"),
        ("newer.json", '{"format": 7, "all": "different"}\n', "newer HiveMind (format 7; this one reads 1)"),
    ],
)
def test_what_is_not_ours(tmp_path: Path, name: str, text: str, says: str) -> None:
    """A file of somebody else, or of a version to come, is told in a line, and nothing is done to it."""
    good = keep(tmp_path)
    other = good.parent / name
    other.write_text(text)
    found, wrong = listed(good.parent)
    assert [each.path for each in found] == [good]
    assert (len(wrong), says in wrong[0], name in wrong[0]) == (1, True, True)
    prune(good.parent, {good.stem}, 1, limit=0, files=0)
    assert other.read_text() == text


def test_no_files(tmp_path: Path) -> None:
    """Folders and pipes are told, too, and nobody waits for what might come out of one."""
    (tmp_path / "x.json").mkdir()
    os.mkfifo(tmp_path / "y.json")
    assert listed(tmp_path) == ([], ["x.json: isn't a file", "y.json: isn't a file"])


def test_no_folder(tmp_path: Path) -> None:
    """Nothing was kept yet."""
    assert listed(tmp_path / "none") == ([], [])


def test_newest_first(tmp_path: Path) -> None:
    """In the order in which agents were stopped; an agent's name stands for its latest, a checkpoint's for itself."""
    paths = [keep(tmp_path, agent, AT + n) for n, agent in enumerate(("alice", "bob", "alice"))]
    found, _ = listed(folder_in(tmp_path))
    assert [each.path for each in found] == paths[::-1]
    by_agent, by_name, neither = latest(found, "alice"), latest(found, paths[0].stem), latest(found, "carol")
    assert by_agent is not None
    assert by_name is not None
    assert (by_agent.path, by_name.path, neither) == (paths[2], paths[0], None)


def test_only_so_many_of_an_agent(tmp_path: Path) -> None:
    """The oldest of the same agent go, of others none, also where one's name is the beginning of another's."""
    agents = ("alice", "alice-2", "a/b", "other")
    for n in range(4):
        made = [checkpoint(agent, AT + n) for agent in agents]
        for each in made:
            write(tmp_path, each, BODY)
        prune(tmp_path, {each.name for each in made if each.agent != "other" or n == 0}, keep=2)
    found, _ = listed(tmp_path)
    for agent in agents[:3]:
        assert [each.checkpoint.at for each in found if each.checkpoint.agent == agent] == [AT + 3, AT + 2]
    assert len([each for each in found if each.checkpoint.agent == "other"]) == 4


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    """In bytes and in files, the oldest of all go first, and never the newest, however large it is."""
    paths = [keep(tmp_path, f"a{n}", AT + n) for n in range(6)]
    folder, size = folder_in(tmp_path), paths[0].stat().st_size
    prune(folder, {paths[5].stem}, 100, limit=4 * size)
    assert sorted(folder.iterdir()) == paths[2:]
    prune(folder, {paths[5].stem}, 100, files=3)
    assert sorted(folder.iterdir()) == paths[3:]
    prune(folder, {paths[3].stem}, 100, limit=size // 2)
    assert sorted(folder.iterdir()) == [paths[3]]


def test_what_a_crash_left_is_removed(tmp_path: Path) -> None:
    """A draft that is long dead goes; one that may still be written stays; neither is listed."""
    keep(tmp_path)
    folder = folder_in(tmp_path)
    old, new = folder / ".a.1.draft", folder / ".b.2.draft"
    for draft in (old, new):
        draft.write_text("half")
    os.utime(old, (time.time() - atomic.DRAFT_OLD_S - 60,) * 2)
    prune(folder, {"x"}, 5)
    assert (old.exists(), new.exists()) == (False, True)
    assert len(listed(folder)[0]) == 1


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No half file, no draft, and what was there before is as it was."""
    path = keep(tmp_path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        keep(tmp_path, body=b"[]")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@given(st.text(min_size=1, max_size=80), st.floats(min_value=0, max_value=4e9))
def test_names_are_safe(agent: str, at: float) -> None:
    """A checkpoint's name is plain, short, no path, not hidden, and the same for the same agent and moment alone."""
    name = checkpoint_name(agent, at)
    assert name.isascii()
    assert len(name) < 100
    assert not set(name) & set('/\\:*?"<>| \n\0')
    assert not name.startswith((".", "-"))
    assert checkpoints._NAME.fullmatch(name)
    assert checkpoint_name(agent + "x", at) != name
