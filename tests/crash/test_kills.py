"""A few kills as `make crash` does many, and what it holds against them."""

from __future__ import annotations

import asyncio
import math
import random
from asyncio.subprocess import PIPE
from dataclasses import asdict
from pathlib import Path

import pytest
from fuzz.kit import CORPUS
from journal.played import journal, some

from benchmarks.crash.__main__ import broken, measure, schedule, table
from benchmarks.crash.figures import text_of
from benchmarks.crash.result import Kill, drafts_in, running_in
from benchmarks.crash.runner import kill_batch, kill_run
from benchmarks.crash.serving import serving_in


@pytest.mark.e2e
async def test_programs_that_serve(tmp_path: Path) -> None:
    """Killed at the moments that are hardest on their files, they keep every promise that isn't one of time."""
    async with serving_in(tmp_path / "served", random.Random(7)) as served:
        kills = [await served.kill("proxy", "settings are saved"), await served.kill("room", "a journal's part begins")]
    assert broken(kills, math.inf) == []


@pytest.mark.e2e
async def test_runners(tmp_path: Path) -> None:
    """Each task of a batch runs once or is reported; the command of a run goes on, and its name is free."""
    kills = [
        await kill_batch(tmp_path / "batch", "a task is claimed", random.Random(7)),
        await kill_run(tmp_path / "run", random.Random(7)),
    ]
    assert broken(kills, math.inf) == []


def test_schedule() -> None:
    """The same seed gives the same kills, and fifty have every moment of every victim."""
    first, again, other = (schedule(50, seed) for seed in (3, 3, 4))
    assert [each[:2] for each in first] == [each[:2] for each in again] != [each[:2] for each in other]
    assert {victim for victim, _, _ in first} == {"proxy", "room", "batch", "run"}
    assert len({each[:2] for each in first}) == 23


async def test_nothing_to_kill(tmp_path: Path) -> None:
    """Kills are left out by the name of their victim and moment."""
    assert await measure(3, 1, tmp_path, only="no such victim") == []


def test_what_is_broken() -> None:
    """Every broken promise is a line, too much lost usage and too many drafts are too, and all are counted."""
    kill = Kill("proxy", "draining", lost_s=1.5, drafts=40)
    kill.holds(True, "arithmetic")
    kill.holds(False, "more arithmetic")
    assert broken([kill]) == [
        "proxy, draining: more arithmetic",
        "proxy, draining: 1.5 s of usage are lost",
        "proxy, draining: 40 drafts are left",
    ]
    assert table([kill, kill]).split()[-5:] == ["2", "1.50", "0", "40", "2"]


def test_the_table_of_the_manual() -> None:
    """It comes from the results, and counts what they have."""
    kill = Kill("proxy", "draining", lost_s=0.25, torn_lines=1, drafts=2)
    bad = Kill("batch", "starting", broken=["it hangs"])
    text = text_of([{"seed": seed, "kills": [asdict(kill), asdict(bad)], "broken": ["x"]} for seed in (3, 4)])
    assert text.startswith("4 kills (seeds 3 and 4), 2 broken promises:\n\n| killed |")
    assert text.splitlines()[-2:] == [
        "| batch's runner | starting | 2 |  |  | 0 | 2 |",
        "| proxy | draining | 2 | 0.25 | 2 | 2 | 0 |",
    ]


async def test_files_that_are_cut(tmp_path: Path) -> None:
    """A writer that left half of a checkpoint, of the settings or a line within a journal has broken a promise."""
    async with serving_in(tmp_path / "served", random.Random(7)) as serving:
        served = serving.served
        for name in ("journals", "checkpoints"):
            (served.state / name).mkdir(parents=True)
        kept = served.state / "checkpoints" / "bob-20261123T104653.035.json"
        kept.write_bytes((CORPUS / "checkpoint" / "stopped").read_bytes())
        recorded = journal(served.state / "journals", some(7, 60))
        settings = served.folder / "hivemind.toml"

        def broken_now() -> list[str]:
            kill = Kill("proxy", "at random")
            serving._check_files(kill, [recorded])
            return kill.broken

        assert broken_now() == []
        for path, promise in ((kept, "checkpoints: "), (settings, "the settings file"), (recorded, recorded.name)):
            whole = path.read_bytes()
            half, end = len(whole) // 2, whole.find(b"}", len(whole) // 2)
            path.write_bytes(whole[:end] + whole[end + 1 :] if path is recorded else whole[:half])
            (line,) = broken_now()
            assert line.startswith(promise)
            path.write_bytes(whole)


async def test_what_is_left(tmp_path: Path) -> None:
    """Processes are found by their folder, and files of writes by their names."""
    (tmp_path / ".a.draft").touch()
    (tmp_path / "a").touch()
    process = await asyncio.create_subprocess_exec("cat", cwd=tmp_path, stdin=PIPE, stdout=PIPE)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"up\n")
        await process.stdout.readline()  # a process that just began has no command line yet
        assert list(running_in(tmp_path)) == [process.pid]
        assert drafts_in(tmp_path) == [tmp_path / ".a.draft"]
    finally:
        process.kill()
        await process.wait()
    assert running_in(tmp_path) == {}
