"""The limits of an upstream hold whatever credentials are made up: lanes go by what its provider reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from proxy.kit import proxying, raw, request
from proxy.wire import ANSWER, PLAIN_BODY
from upstream.scripted import Scripted, serving

from hivemind.providers.profiles import PROFILES
from hivemind.wire.identity import ANONYMOUS, EVERYBODY, SEVERAL, lane_credential

MESSAGES = "/v1/messages"
REAL = "authorization: Bearer sk-real"
ASKED = 12


class Busy:
    """An upstream that answers once as many requests have come as ever will, and counts how many were open at once."""

    def __init__(self) -> None:
        self.open = self.most = 0
        self.release = asyncio.Event()

    async def serve(self, script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await script.request(reader)
            self.open += 1
            self.most = max(self.most, self.open)
            await self.release.wait()
            self.open -= 1
            writer.write(ANSWER)
            await writer.drain()


async def most_in_flight(provider: str, heads: Iterable[tuple[str, ...]], **values: Any) -> tuple[int, int]:
    """Most requests that were at the upstream at once when these were sent together, and how many were answered."""
    busy = Busy()
    async with serving(busy.serve) as upstream, proxying(f"{provider}={upstream.url}", **values) as proxy:
        targets = [(MESSAGES + (each.pop(0) if each[0].startswith("?") else ""), each) for each in map(list, heads)]

        async def ask(number: int, target: str, headers: list[str]) -> bool:
            async with raw(proxy.port) as direct:
                return (await direct.ask(request(f"/agent/a{number}{target}", PLAIN_BODY, *headers)))[0] == 200

        tasks = [asyncio.create_task(ask(number, *each)) for number, each in enumerate(targets)]
        world = await proxy.until(lambda world: world.totals.requests == len(targets))
        await upstream.until(lambda: busy.open == len(targets) - world.queued)
        busy.release.set()
        answered = await asyncio.gather(*tasks)
        return busy.most, sum(answered)


MADE_UP: dict[str, tuple[str, Callable[[int], tuple[str, ...]]]] = {
    "a second key, anthropic": ("anthropic", lambda n: (REAL, f"x-api-key: made-up-{n}")),
    "a second bearer, anthropic": ("anthropic", lambda n: ("x-api-key: sk-real", f"authorization: Bearer {n}")),
    "the same header twice": ("anthropic", lambda n: (f"x-api-key: made-up-{n}", "x-api-key: sk-real")),
    "other spellings": ("anthropic", lambda n: (f"authorization: {['Bearer', 'bEARER', 'BEARER'][n % 3]} \t sk-real",)),
    "a key that openai doesn't read": ("openai", lambda n: (REAL, f"x-api-key: made-up-{n}", f"api-key: {n}")),
    "a key that azure doesn't read": ("azure", lambda n: ("api-key: sk-real", f"x-api-key: made-up-{n}")),
    "a second key, azure": ("azure", lambda n: ("api-key: sk-real", f"authorization: Bearer {n}")),
    "a second key, google": ("google", lambda n: (f"?key=made-up-{n}", "x-goog-api-key: sk-real")),
    "spellings in the query": ("google", lambda n: (f"?{['%6bey', 'key', 'ke%79'][n % 3]}=sk%2{'dD'[n % 2]}real",)),
    "two in the query": ("google", lambda n: (f"?key=made-up-{n}&key=sk-real",)),
    "a query without end": ("google", lambda n: (f"?key=made-up-{n}" + "&a=1" * 200,)),
    "any key, ollama": ("ollama", lambda n: (f"authorization: Bearer made-up-{n}",)),
    "any key, unknown": ("generic", lambda n: (f"authorization: Bearer made-up-{n}", f"x-api-key: {n}")),
    "no key that is read": ("openai", lambda n: (f"x-api-key: made-up-{n}",)),
}


@pytest.mark.parametrize(("provider", "made_up"), MADE_UP.values(), ids=list(MADE_UP))
async def test_made_up_credentials_bring_no_allowance(provider: str, made_up: Callable[[int], tuple[str, ...]]) -> None:
    """Two at once are two at once, and all are answered in the end."""
    heads = [made_up(number) for number in range(ASKED)]
    assert await most_in_flight(provider, heads, max_concurrency=2) == (2, ASKED)


async def test_real_credentials_have_lanes_of_their_own() -> None:
    """Each key's limits are its own, in whichever header that its provider reads it comes."""
    heads = [(f"x-api-key: sk-{n % 2}",) if n < 6 else (f"authorization: Bearer sk-{n % 2}",) for n in range(ASKED)]
    assert await most_in_flight("anthropic", heads, max_concurrency=2) == (4, ASKED)


def test_names_of_lanes() -> None:
    """By the credential where there is one, else by what is known."""
    anthropic, google, ollama = PROFILES["anthropic"], PROFILES["google"], PROFILES["ollama"]
    key = lane_credential([(b"x-api-key", b"k")], b"", anthropic)
    assert len(key) == 8
    assert lane_credential([(b"authorization", b"Bearer k"), (b"x-api-key", b"k ")], b"", anthropic) == key
    assert lane_credential([(b"authorization", b""), (b"x-api-key", b"k")], b"key=other", anthropic) == key
    assert lane_credential([], b"alt=sse&key=k", google) == key
    assert lane_credential([(b"x-goog-api-key", b"k")], b"key=other", google) == SEVERAL
    assert lane_credential([(b"x-other", b"k")], b"key=k", anthropic) == ANONYMOUS
    assert lane_credential([(b"authorization", b"Bearer k")], b"", ollama) == EVERYBODY
