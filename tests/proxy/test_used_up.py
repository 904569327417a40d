"""Six agents before a provider that refuses them all: for good, for a minute, or without a word."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from itertools import pairwise

import httpx
import pytest
from providers.test_meaning import NOW, THROTTLES, USED_UP
from proxy import test_retry_delays
from proxy.test_retry_delays import BODY, OK, Answer, Stage, play, says

from hivemind.host.proxy import Proxy

AGENTS = 6
_QUICK = 6
"""Wordings of each kind that are played in the quick run; the reader is held to all of them in `tests/providers`."""


@pytest.fixture(autouse=True)
def _epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dates in the words are seen from their own day."""
    monkeypatch.setattr(test_retry_delays, "EPOCH", NOW)


def refusal(body: object, headers: dict[str, str]) -> Answer:
    data = json.loads(body) if isinstance(body, str) and body[:1] == "{" else body
    return says(429, data, **{name.replace("-", "_"): value for name, value in headers.items()})  # type: ignore[arg-type]


class Closed(Stage):
    """An upstream that refuses for so many seconds."""

    def __init__(self, answer: Answer, for_s: float) -> None:
        super().__init__(answer)
        self._refusal, self._for_s = answer, for_s

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        began = self.times[0] if self.times else asyncio.get_running_loop().time()
        self._answers = (self._refusal if asyncio.get_running_loop().time() < began + self._for_s else OK,)
        await super().__call__(scope, receive, send)


def ask_all(stage: Stage) -> tuple[list[int], list[float], list[str]]:
    """Return what six agents were answered, when, and what the verdict said each ten seconds."""
    statuses: list[int] = []
    told: list[float] = []
    texts: list[str] = []

    async def work(web: httpx.AsyncClient, proxy: Proxy) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()

        async def one(agent: int) -> None:
            statuses.append((await web.post(f"/agent/a{agent}/v1/messages", content=BODY)).status_code)
            told.append(clock() - began)

        waiting = asyncio.gather(*(one(agent) for agent in range(AGENTS)))
        while not waiting.done():
            await asyncio.wait([waiting], timeout=10)
            texts.append(proxy.snapshot().verdict.text)
        await waiting

    play(stage, work)
    return statuses, told, texts


def some(names: Iterable[str]) -> list[object]:
    return [pytest.param(each, marks=[pytest.mark.slow] * (at >= _QUICK)) for at, each in enumerate(names)]


@pytest.mark.parametrize("name", some(USED_UP))
def test_a_used_up_plan_is_told_at_once(name: str) -> None:
    """Each agent learns it within seconds, by one request."""
    stage = Stage(refusal(USED_UP[name], {}))
    statuses, told, texts = ask_all(stage)
    assert statuses == [429] * AGENTS
    assert "the provider's plan is used up (429" in texts[-1]
    assert max(told) < 5
    assert len(stage.times) <= 8


@pytest.mark.parametrize("name", some(name for name in THROTTLES if name != "a page"))
def test_a_throttle_of_a_minute_ends_nobody(name: str) -> None:
    """What resembles a used-up plan is waited for."""
    stage = Closed(refusal(*THROTTLES[name]), 60)
    statuses, _, _ = ask_all(stage)
    assert statuses == [200] * AGENTS


@pytest.mark.parametrize(
    "body", [{}, {"error": {"code": "7701", "message": "nicht jetzt (leider)"}}], ids=["nothing", "words"]
)
def test_two_minutes_of_unexplained_refusals_end_nobody(body: dict[str, object]) -> None:
    """They are probed one at a time, nothing is promised meanwhile, and the verdict quotes what there is to quote."""
    stage = Closed(says(429, body), 120)
    statuses, _, texts = ask_all(stage)
    assert statuses == [200] * AGENTS
    assert len(stage.times) <= 60
    late = [at - stage.times[0] for at in stage.times if 20 < at - stage.times[0] < 120]
    assert all(later > earlier for earlier, later in pairwise(late))
    assert not any("gets through in about" in text for text in texts[2:11])
    if body:
        assert "429 7701: nicht jetzt [leider]" in texts[5]
