"""What the entry point `mock` of `hivemind.replays` names: a recording run again through the real proxy."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hivemind.errors import UsageError
from hivemind.journal.figures import Figures, FiguresFold
from hivemind.journal.read.reader import open_journal
from hivemind.lab.fit.provider import FittedProvider
from hivemind.lab.simulate.clock import run_virtual
from hivemind.lab.simulate.overrides import Change, apply_changes, names, value_in
from hivemind.lab.simulate.recording import Recording
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import Price
from hivemind_mock.bench.proxied import in_process
from hivemind_mock.replay.agents import RecordedAgents
from hivemind_mock.replay.provider import FittedUpstream

_OWN_LIMITS = ("rpm", "tpm")


def replay(recording: Recording, changes: Sequence[Change], seed: int, price: Price | None = None) -> Figures:
    """Run a recording's agents with these changes through the proxy, in virtual time, and return what came of it.

    The provider is a mock that does what was fitted to the recording, with the luck of a seed.

    Raises: UsageError: the changes don't go together, or the recording has upstreams with different settings.
    """
    settings = _settings(recording, changes)
    with tempfile.TemporaryDirectory(prefix="hivemind-replay-") as folder:
        path = Path(folder) / "replay.jsonl"
        run_virtual(_run(recording, settings, seed, path))
        tally = FiguresFold(price)
        for event in open_journal(path).events():
            tally.apply(event)
        return tally.figures()


async def _run(recording: Recording, settings: dict[str, Any], seed: int, path: Path) -> None:
    upstream = FittedUpstream(recording, seed)
    async with in_process(upstream, seed, settings, path) as transport:
        await RecordedAgents(recording, seed, transport, "http://hivemind.localhost").run()


def _settings(recording: Recording, changes: Sequence[Change]) -> dict[str, Any]:
    """Return the settings that the recording began with, with the changes."""
    lanes = [apply_changes(changes, recording.began.config, lane) for lane in recording.lanes.values()]
    scheduler, lane = lanes[0]
    if any(replace(each, upstream=lane.upstream, provider=lane.provider) != lane for _, each in lanes):
        raise UsageError(
            f"{recording.name}: its upstreams have different settings, so one mock can't stand in for them"
        )
    made: dict[str, Any] = {}
    for name in names():
        if name in _OWN_LIMITS and not _holds(name, lane, recording.providers.values()):
            continue
        section, _, key = name.rpartition(".")
        (made.setdefault(section, {}) if section else made)[key] = value_in(name, scheduler, lane)
    return made


def _holds(name: str, lane: LaneConfig, providers: Any) -> bool:
    """Return whether a limit of ours holds, because the user set it, or the provider states none that replaces it."""
    fitted: Sequence[FittedProvider] = list(providers)
    stated = any(limit.reported for each in fitted for limit in each.limits)
    return bool(getattr(lane, f"{name}_binding")) or not stated
