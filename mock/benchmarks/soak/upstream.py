"""The provider of a soak, in a process of its own: the mock with faults of every kind, which keeps a book.

`python -m benchmarks.soak.upstream SEED` serves on a free port until it is killed, and says where on standard
output. `GET /_soak/attempts` and `GET /_soak/answers` return a byte for each request by its number: how often it
arrived, and how often it was answered to the end.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Mapping

import msgspec
from msgspec.structs import asdict
from starlette.types import Receive, Scope, Send

from benchmarks.perf.upstream import READY
from benchmarks.soak.messages import number_of
from hivemind.host.loop import run_loop
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving

STALL = 0.001
"""Probability that a wait, of which an answer has about three, doesn't end."""
_STALLED_S = 3600.0
FAULTS = FaultConfig(
    bad_gateway=0.01,
    overloaded=0.004,
    rate_limited=0.0005,
    quota=0.001,
    reset=0.01,
    reset_early=0.005,
    reset_mid=0.005,
    truncated=0.005,
    error_early=0.005,
    error_mid=0.005,
    spell_every_s=97.0,
    spell_s=2.0,
    edge=0.3,
)


def config(seed: int) -> MockConfig:
    """Return the provider of that seed."""
    return MockConfig(
        seed=seed,
        latency=LatencyConfig(base_s=0.04, jitter_s=0.03, spike=0.005, spike_factor=20, token_s=0.001),
        faults=FAULTS,
        reply=ReplyConfig(tokens=12, spread=8, event_tokens=5, encoding="gzip"),
    )


class Book:
    """What became of each request, by its number."""

    def __init__(self) -> None:
        self.attempts = bytearray()
        self.answers = bytearray()
        self.late = 0
        """Attempts that began after their request had been answered."""

    def arrived(self, echo: str) -> None:
        number = number_of(echo)
        if len(self.attempts) <= number:
            room = bytes(number + 4096 - len(self.attempts))
            self.attempts += room
            self.answers += room
        self.late += self.answers[number] > 0
        self.attempts[number] = min(255, self.attempts[number] + 1)

    def answered(self, echo: str) -> None:
        number = number_of(echo)
        self.answers[number] = min(255, self.answers[number] + 1)


class Upstream:
    """The mock, and its book."""

    def __init__(self, seed: int) -> None:
        self._book = Book()
        self._rng = random.Random(seed)
        self._mock = MockProvider(config(seed), sleep=self._sleep, observer=self._book)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        data = self._page(scope["path"])
        if data is None:
            await self._mock(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(data))]})
        await send({"type": "http.response.body", "body": data})

    def _page(self, path: str) -> bytes | None:
        book = self._book
        if path == "/_soak/attempts":
            return bytes(book.attempts)
        if path == "/_soak/answers":
            return bytes(book.answers)
        if path == "/_soak/counts":
            return msgspec.json.encode({"late": book.late, **counts_of(self._mock)})
        return None

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(_STALLED_S if self._rng.random() < STALL else seconds)


def counts_of(mock: MockProvider) -> Mapping[str, object]:
    """Return the mock's counters, with the faults by name."""
    stats = asdict(mock.stats)
    return {**stats, "faults": {fault.value: count for fault, count in mock.stats.faults.items()}}


async def serve(seed: int) -> None:
    """Serve until cancelled."""
    async with serving(Upstream(seed)) as url:
        print(f"{READY}{url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    run_loop(serve(int(sys.argv[1])))
