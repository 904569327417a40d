"""The faults of the mock provider, which demonstrations and other tests use."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import chain, repeat

from faults.formats import Api
from proxy.kit import raw, request
from starlette.types import Receive, Scope, Send

from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.faults import Fault
from hivemind_mock.provider.serve import serving


def _provider(faults: FaultConfig) -> MockProvider:
    """A new one, so that each gives its first answer; its content doesn't depend on its faults."""
    latency, reply = LatencyConfig(base_s=0.002, jitter_s=0.0), ReplyConfig(tokens=40, spread=0)
    return MockProvider(MockConfig(seed=1, faults=faults, latency=latency, reply=reply), wall=lambda: 1_700_000_000.0)


@dataclass(frozen=True)
class Mocked:
    """One of its faults; `edge`: as a page of what stands before the provider."""

    fault: Fault
    edge: bool = False

    @property
    def name(self) -> str:
        """In words."""
        return self.fault.value.replace("_", " ") + (" (page)" if self.edge else "")

    @contextlib.asynccontextmanager
    async def serving(self, *, lasting: bool) -> AsyncIterator[str]:
        """Serve a provider with this fault, once or each time; give its URL."""
        bad = FaultConfig(**{self.fault.value: 1.0, "edge": float(self.edge)})
        faults = repeat(bad) if lasting else chain((bad,), repeat(FaultConfig()))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await _provider(next(faults))(scope, receive, send)

        async with serving(app) as url:
            yield url


async def good_body(api: Api, stream: bool) -> bytes:
    """The body of an answer without a fault."""
    async with serving(_provider(FaultConfig())) as url, raw(int(url.rpartition(":")[2])) as direct:
        return await direct.body((await direct.ask(request(api.path(stream), api.request(stream))))[1])


MOCKED = [*map(Mocked, Fault), Mocked(Fault.BAD_GATEWAY, edge=True)]
