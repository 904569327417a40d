"""Journals that are damaged, put together or gone, played all the same."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from journal.played import BEGAN, NAME, folded, indexed, journal, opened, some

from hivemind.errors import UsageError
from hivemind.journal.codec import line_of
from hivemind.journal.files import part_path
from hivemind.journal.index import builder as indexing
from hivemind.journal.index import index_state as starts
from hivemind.journal.index.index import index_path
from hivemind.journal.index.player import Player
from hivemind.journal.read.reader import open_journal

pytestmark = pytest.mark.e2e
LINES = [line_of(BEGAN), *(line_of(event) for event in some(count=250))]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done for large journals is done for small ones."""
    monkeypatch.setattr(indexing, "EVENTS_APART", 40)
    monkeypatch.setattr(indexing, "_LOOKED_EVERY", 5)
    monkeypatch.setattr(indexing, "_SHARE", 0)
    monkeypatch.setattr(starts, "TAIL", 20_000)


def assert_as_folded(path: Path, at: Iterable[float]) -> None:
    """By its index, at these moments."""
    with closing(opened(indexed(path))) as player:
        assert player.known_to == 1
        for moment in at:
            player.seek(moment)
            assert player.world.snapshot(moment) == folded(path, moment).snapshot(moment)


def walk(path: Path) -> None:
    """Look at several moments, whatever is there."""
    with closing(opened(path)) as player:
        for share in (0.5, 1.0, 0.2, 0.9):
            player.seek(player.begins_at + share * (player.ends_at - player.begins_at))
            player.world.snapshot(player.at)
        assert player.overview(5)
        assert all(isinstance(line, str) for line in player.damage)


def refused(path: Path) -> str:
    """Look at it; why that can't be done, or nothing."""
    try:
        walk(path)
    except UsageError as error:
        return str(error)
    return ""


@given(
    st.lists(
        st.one_of(st.sampled_from(LINES), st.binary(max_size=30), st.sampled_from([b"\0" * 9, b"\n", b"\xef\xbb\xbf"])),
        max_size=30,
    )
)
@settings(max_examples=examples(120), deadline=None, derandomize=True)
def test_any_bytes_play_or_are_one_line(pieces: list[bytes]) -> None:
    """With an index and without."""
    with tempfile.TemporaryDirectory() as folder:
        path = part_path(Path(folder), NAME, 1)
        path.write_bytes(b"".join(pieces))
        told = refused(path)
        assert "\n" not in told
        if not told:
            indexed(path)
            walk(path)


@given(st.floats(0, 1), st.binary(max_size=20), st.integers(0, 3000))
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_damage_in_the_midst_is_passed_over(share: float, rubbish: bytes, gone: int) -> None:
    """The index comes to the same as reading from the start does."""
    whole = b"".join(LINES)
    at = len(LINES[0]) + round(share * (len(whole) - len(LINES[0])))
    with tempfile.TemporaryDirectory() as folder:
        path = part_path(Path(folder), NAME, 1)
        path.write_bytes(whole[:at] + rubbish + whole[at + gone :])
        assert_as_folded(path, [some(count=250)[-1].at * number / 4 for number in range(5)])
        with closing(opened(path)) as player:
            journal = open_journal(path)
            assert all(journal.events())
            assert player.damage == tuple(journal.damage.messages())


def test_a_journal_that_is_removed_while_it_is_played(tmp_path: Path) -> None:
    """One line says so; what is shown stays."""
    folder = tmp_path / "journals"
    folder.mkdir()
    player = opened(journal(folder, some(), 2))
    player.seek(10.0)
    shown = player.world.snapshot(10.0)
    shutil.rmtree(folder)
    player.look()
    with pytest.raises(UsageError, match="can't be read any more"):
        player.seek(player.ends_at)
    assert player.world.snapshot(10.0) == shown
    player.close()


def test_an_index_without_its_journal_is_no_journal(tmp_path: Path) -> None:
    """Somebody may name the wrong file."""
    path = indexed(journal(tmp_path, some(count=100)))
    with pytest.raises(UsageError, match="isn't a journal"):
        Player(index_path(path), indexed=False)
