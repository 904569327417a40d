"""`hivemind tune --verify live`: on a proxy with traffic, in turns with the present settings."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import pytest
from commands.kit import desk
from commands.test_explore_live import traffic
from control.kit import TOKEN

from hivemind.cli.lab.tune_verify import live_text, verified_json, verified_live
from hivemind.lab.foresight.ranges import Range
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.tune.promise import Promise

CHANGES = (Change("max_concurrency", 8), Change("aimd.beta", 0.7))
GAIN = Range(0.2, 0.1, 0.3)
PROMISE = Promise("wall_time", CHANGES, (), (GAIN,), GAIN, "")


async def test_verified_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was promised stands beside what came of it on real traffic, and the present settings are put back."""
    monkeypatch.setenv("HIVEMIND_CONTROL_TOKEN", TOKEN)
    monkeypatch.setenv("HIVEMIND_STATE_DIR", str(tmp_path))
    async with desk(tmp_path) as at, traffic(at):
        await at.does("set rpm none")
        namespace = argparse.Namespace(
            bound=["answered=1"], slice="1s", length="6s", transition="0.2s", upstream=None, attach=at.proxy.url
        )
        runs = await asyncio.to_thread(verified_live, CHANGES, namespace)
        knobs = at.proxy.snapshot().lanes[0].state.knobs
        assert (knobs["max_concurrency"], knobs["aimd.beta"]) == (4, 0.5)
        said = [line.text for line in at.proxy.snapshot().lines]
        assert any("max_concurrency 8, aimd.beta 0.7 (B)" in text for text in said)
    text = " ".join(live_text(runs, PROMISE, "wall time", 100))
    assert text.startswith("On live traffic: ")
    assert "20 % (10 to 30 %) off the wall time, which is 25 % (11 to 43 %) more requests a minute." in text
    assert "answered a minute" in text
    told = verified_json(runs, PROMISE)
    assert (told["where"], told["pairs"]) == ("live", 3)
