"""What a journal costs: one proxy that writes it and one that doesn't, turn and turn about."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from benchmarks.perf import servers
from benchmarks.perf.load import Load, put_load
from benchmarks.perf.target import Target

CLIENTS = 16
ON, OFF = "recording", "not recording"


@dataclass(frozen=True, slots=True)
class RecordingSizes:
    """How much is measured: many short rounds, since a neighbour that comes and goes disturbs whole seconds; with
    several pairs of programs, since of two that are alike one may be faster by a tenth for as long as it runs."""

    pairs: int
    rounds: int
    """Of each pair."""
    warm_s: float
    measure_s: float


async def measure_recording(
    behind: Target, sizes: RecordingSizes, progress: Callable[[str], None]
) -> list[tuple[Load, Load]]:
    """Rounds of a load on each. Raises: PerfError."""
    found = []
    for pair in range(sizes.pairs):
        progress(f"with and without a journal, {pair + 1} of {sizes.pairs}")
        found += await _measure_pair(behind, sizes)
    return found


async def _measure_pair(behind: Target, sizes: RecordingSizes) -> list[tuple[Load, Load]]:
    async with AsyncExitStack() as stack:
        on = await stack.enter_async_context(servers.hivemind(behind, ON))
        off = await stack.enter_async_context(servers.hivemind(behind, OFF, "--journal.enabled", "off"))
        found = []
        for number in range(sizes.rounds):
            # The other way round every other time, so that a drift favours neither.
            first, second = [
                await put_load(target, CLIENTS, warm_s=sizes.warm_s, measure_s=sizes.measure_s)
                for target in ((on, off) if number % 2 == 0 else (off, on))
            ]
            found.append((first, second))
        return found
