from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.soak.crowd import broken, possible, waiting
from benchmarks.soak.messages import Message, Outcome, Reply, judged
from benchmarks.soak.result import Result, settle
from benchmarks.soak.run import Plan, soak
from benchmarks.soak.watching import WINDOWS, Sample, grown, windows
from hivemind.records import replace

LENGTH_S = float(os.environ.get("SOAK_S", "20"))
WHOLE = Message(7, "anthropic", False, b"")
STREAM = Message(7, "openai_chat", True, b"")
TEXT = b'{"text":"soak7.0 word soak7.1 word "}'


@pytest.mark.first
@pytest.mark.e2e
async def test_soak(tmp_path: Path) -> None:
    """Through random faults, disconnects and steering no request is lost, no invariant breaks and nothing grows."""
    result = await soak(Plan(seed=14, minutes=LENGTH_S / 60, rate=50.0, agents=40, visitors=20), tmp_path)
    assert result.broken == []
    assert result.outcomes["answered"] > LENGTH_S
    assert result.attempts > 0


def reply(body: bytes, status: int = 200, headers: bytes = b"", *, complete: bool = True) -> Reply:
    return Reply(status, headers, body, complete)


@pytest.mark.parametrize(
    ("sent", "got", "outcome"),
    [
        (WHOLE, reply(TEXT), Outcome.ANSWERED),
        (WHOLE, reply(zlib.compress(TEXT, wbits=31), headers=b"gzip;"), Outcome.ANSWERED),
        (WHOLE, reply(TEXT[:20], complete=False), Outcome.CUT),
        (WHOLE, reply(b'{"error":{"message":"no"}}', 503), Outcome.REFUSED),
        (WHOLE, reply(b"<html>", 502, b"text/html;"), Outcome.REFUSED),
        (STREAM, reply(b'data: "soak7.0 word "\n\ndata: [DONE]\n\n'), Outcome.ANSWERED),
        (STREAM, reply(b'data: "soak7.0 word "\n\ndata: {"error":{"message":"no"}}\n\n'), Outcome.ERROR_EVENT),
        (Message(7, "ollama", False, b""), reply(b'{"error":"no"}', 500), Outcome.REFUSED),
        (WHOLE, reply(b"", 0), Outcome.BROKEN),
        (WHOLE, reply(TEXT.replace(b"soak7.1", b"soak8.1")), Outcome.BROKEN),
        (WHOLE, reply(TEXT.replace(b"soak7.1", b"soak7.2")), Outcome.BROKEN),
        (WHOLE, reply(TEXT + TEXT), Outcome.BROKEN),
        (WHOLE, reply(TEXT[:-2]), Outcome.BROKEN),
        (WHOLE, reply(b"{}"), Outcome.BROKEN),
        (WHOLE, reply(b"no gzip", headers=b"gzip;"), Outcome.BROKEN),
        (WHOLE, reply(b'{"error":"no"}', 503), Outcome.BROKEN),
        (WHOLE, reply(b"<html>", 503, b"text/html;"), Outcome.BROKEN),
        (WHOLE, reply(b'{"error":', 503, complete=False), Outcome.BROKEN),
        (STREAM, reply(b'data: "soak7.0 word "\n\n'), Outcome.BROKEN),
        (STREAM, reply(b"data: [DONE]\n\n"), Outcome.BROKEN),
        (STREAM, reply(b'data: "soak7.0 word soak7.0 word "\n\ndata: [DONE]\n\n'), Outcome.BROKEN),
        (STREAM, reply(b'data: [DONE]\n\ndata: {"error":{"message":"no"}}\n\n'), Outcome.BROKEN),
    ],
)
def test_what_a_client_got(sent: Message, got: Reply, outcome: Outcome) -> None:
    """Only its own answer, once and to the end, or one error in the format's shape, is right."""
    found, wrong = judged(sent, got)
    assert (found, bool(wrong)) == (outcome, outcome is Outcome.BROKEN)


@pytest.mark.parametrize(
    ("outcome", "attempts", "answers", "wrong"),
    [
        (Outcome.ANSWERED, 2, 1, ""),
        (Outcome.LEFT, 1, 1, ""),
        (Outcome.CUT, 1, 0, ""),
        (Outcome.REFUSED, 0, 0, ""),
        (Outcome.NONE, 1, 1, "lost"),
        (Outcome.ANSWERED, 2, 2, "more than once"),
        (Outcome.ANSWERED, 1, 0, "though the upstream never did"),
        (Outcome.REFUSED, 1, 1, "but refused for the client"),
        (Outcome.ERROR_EVENT, 1, 1, "but error event for the client"),
        (Outcome.CUT, 1, 1, "but cut for the client"),
    ],
)
def test_both_sides(outcome: Outcome, attempts: int, answers: int, wrong: str) -> None:
    """What a client got and what the upstream did must agree."""
    result = Result(1, "x", requests=1)
    settle(result, bytes([outcome]), bytes([attempts]), bytes([answers]), torn=(), excused=())
    assert len(result.broken) == bool(wrong)
    assert wrong in "".join(result.broken)
    assert result.outcomes == {outcome.name.lower(): 1}


def samples(rss: Sequence[float], files: int = 20) -> list[Sample]:
    return [Sample(at * 5.0, mb, files + at % 3, 5, at / 10, at * 100) for at, mb in enumerate(rss)]


def test_growth() -> None:
    """Medians after the warm-up are compared with the first of them, so neither the warm-up nor a peak counts."""
    steady = [*range(50, 90), *[100.0] * 160]
    steady[120] = 300
    assert windows(samples(steady), "rss_mb") == [100.0] * WINDOWS
    assert grown(samples(steady)) == []
    assert len(grown(samples([*steady[:190], *[106.0] * 60]))) == 1
    assert grown(samples([1.0] * (WINDOWS - 1))) == []
    assert grown(samples([*range(24)])) == []  # too short to tell
    leaking = [replace(sample, files=20 + number // 2) for number, sample in enumerate(samples([1.0] * 200))]
    assert len(grown(leaking)) == 1


@pytest.mark.e2e
@pytest.mark.usefixtures("_limit")
async def test_two_thousand_wait(tmp_path: Path) -> None:
    """Or as many as the system allows connections: the proxy answers others meanwhile, half leave, half are answered,
    and nothing is left of them."""
    crowds = await waiting(possible(2_000), tmp_path / "proxy", turns=1)
    assert broken(crowds) == []
    assert crowds[0].held == crowds[0].asked > 1000
