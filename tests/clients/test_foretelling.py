"""What is foretold of crews that were recorded without HiveMind comes when they really run with it.

Takes ten minutes: the clients wait for minutes of limits.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from clients.crews import CODEX, CREWS, Crew, alone, with_hivemind
from clients.installed import missing

from hivemind.journal.figures import Figures, FiguresFold
from hivemind.journal.importers.making import journal_of
from hivemind.journal.read.reader import open_journal
from hivemind.lab.foresight.answer import answer, foretell
from hivemind.lab.foresight.draws import on_all_cores
from hivemind.lab.foresight.foretold import WAITED, WALL, named
from hivemind.lab.foresight.told import Foretold
from hivemind.lab.simulate.recording import load

pytestmark = pytest.mark.clients


@dataclass(frozen=True)
class Ran:
    """A crew, the wall time and total wait that were foretold, and those that came, in seconds."""

    crew: str
    figures: tuple[Foretold, Foretold] | None
    """None: it was said that it can't be said."""
    came: tuple[float, float]

    @property
    def holds(self) -> bool:
        """Both came within their intervals."""
        return self.figures is not None and all(
            each.changed is not None and each.changed.low <= came <= each.changed.high
            for each, came in zip(self.figures, self.came, strict=True)
        )

    @property
    def wrong(self) -> list[str]:
        """What was said with confidence and came the other way."""
        return [
            f"{self.crew}: {each.name} {each.verdict}, {each.recorded} came as {came}"
            for each, came in zip(self.figures or (), self.came, strict=False)
            if each.verdict in ("better", "worse")
            and each.recorded is not None
            and (each.verdict == "better") is not (came < each.recorded)
        ]


async def run(crew: Crew, folder: Path) -> Ran:
    """Record a crew, foretell, and let it run."""
    home = await alone(crew, folder / "alone")
    sessions = home / (".codex/sessions" if crew.command is CODEX else ".claude/projects")
    recording = load((journal_of([str(sessions)], folder / "state").path,))
    figures = None
    if not recording.unsaid:
        found = answer(recording, await asyncio.to_thread(foretell, recording, (), runs=on_all_cores)).figures
        figures = named(found, WALL), named(found, WAITED)
    (journal,) = (await with_hivemind(crew, folder / "with")).glob("*.jsonl")
    came = _figures(journal)
    return Ran(crew.name, figures, (came.wall_s, came.waited_s))


def _figures(path: Path) -> Figures:
    fold = FiguresFold()
    for event in open_journal(path).events():
        fold.apply(event)
    return fold.figures()


async def test_what_is_foretold_comes(tmp_path: Path) -> None:
    """In all crews but one at most, and never the other way round with confidence; of Codex, whose rollouts hold no
    refusals, it is said that it can't be said."""
    if why := missing("claude") or missing("codex"):
        pytest.skip(why)
    ran = [await run(crew, tmp_path / crew.name) for crew in CREWS]
    for each in ran:
        told = [(one.recorded, one.changed, one.verdict) for one in each.figures or ()]
        print(f"\n{each.crew}: {told or 'nothing can be said'}; came {each.came}")
    assert [each.crew for each in ran if each.figures is None] == ["codex"]
    assert [wrong for each in ran for wrong in each.wrong] == []
    assert sum(each.holds for each in ran) >= len(CREWS) - 2
