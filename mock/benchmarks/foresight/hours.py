"""Long recordings: an hour of fifty agents through the proxy in virtual time, and a journal of any size made of it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from benchmarks.perf.long_run import HOUR_S, NAME, write_journal
from benchmarks.worlds.agents import Habits
from benchmarks.worlds.provider import Cost, Rules
from benchmarks.worlds.rules import Chance, Spells, Windows
from benchmarks.worlds.world import World, run
from hivemind.journal.files import part_path
from hivemind.journal.read.reader import open_journal
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind_mock.provider.config import LimitConfig
from hivemind_mock.provider.faults import Fault

AGENTS = 50
_TURNS = 180
_MODELS = ("claude-sonnet-5", "claude-haiku-4-5")
_HALF_SPEED = 25.0
"""With so many more in flight everything takes twice as long."""
_SPELLS_EVERY_S, _SPELLS_LAST_S = 600.0, 8.0


def busy_hour(seed: int = 1) -> World:
    """Return fifty agents at work for about an hour, who make about 9,000 requests.

    Their provider has a token bucket, gets slower under load, and is overloaded now and then.
    """
    rng = random.Random(f"hour {seed}")
    agents = tuple(
        Habits(
            name=f"agent-{number + 1:02d}",
            starts_s=rng.uniform(0.0, 60.0),
            turns=round(_TURNS * rng.uniform(0.85, 1.15)),
            think_s=rng.uniform(2.5, 7.5),
            prompt_tokens=rng.randint(400, 3000),
            growth_tokens=rng.randint(5, 25),
            max_tokens=rng.choice((40, 80, 160)),
            stream=number % 3 > 0,
            at_once=2 if number % 10 == 9 else 1,
            patience_s=rng.uniform(40.0, 90.0) if number % 7 == 6 else None,
            retries=2,
            model=_MODELS[number % 2],
        )
        for number in range(AGENTS)
    )
    times = [(at, at + _SPELLS_LAST_S) for at in (_SPELLS_EVERY_S * (n + rng.random()) for n in range(40))]
    rules = Rules(
        Cost(base_s=0.5, input_s=0.0001, output_s=0.01, jitter=0.2),
        lambda: (Windows(LimitConfig(rpm=180, itpm=2_000_000, window="bucket")),),
        (Spells(times, 0.8), Chance(((Fault.BAD_GATEWAY, 0.004), (Fault.RESET, 0.002)))),
        speed=lambda at, active: 1 / (1 + active / _HALF_SPEED),
    )
    settings = {"max_concurrency": 24, "aimd": {"latency_target_s": 60.0}}
    return World("hour", seed, rules, agents, settings, ("max_concurrency=8",))


def recorded_hour(folder: Path, seed: int = 1) -> Path:
    """Return the journal of that hour, made if it isn't there. Takes minutes."""
    path = folder / f"hour-{seed}.jsonl"
    if not path.exists():
        made = path.with_suffix(".part.jsonl")
        run(busy_hour(seed), 1, path=made)
        made.replace(path)
    return path


def repeated(hour: Path, folder: Path, size: int) -> Path:
    """Return a journal of about so many bytes, in parts, of a recorded hour over and over; made if it isn't there."""
    if not folder.exists():
        made = folder.with_suffix(".part")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        events = [each for each in open_journal(hour).events() if not isinstance(each, JournalBegan | JournalEnded)]
        write_journal(made, size, events=events, hour_s=max(HOUR_S, events[-1].at + 1.0))
        made.rename(folder)
    return part_path(folder, NAME, 1)
