"""The script of budgets in a real store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from redis_server import running

import hivemind.fleet
from hivemind.fleet.budgets import (
    CHANNEL,
    KEY,
    PROTOCOL,
    Amount,
    BudgetDecision,
    BudgetReply,
    BudgetReport,
    Defaults,
    Demand,
)

START = 1_700_000_000.0
ACCOUNTS = ("agent|run|a", "subtree|ever|b|c", "all|day:2026-11-23|")


@pytest.fixture(scope="module")
def redis() -> Iterator[Any]:
    import redis as library

    with running(unix=True) as server:
        client = library.Redis.from_url(server.url)
        with contextlib.closing(client):
            yield client


def some(random: Random, *, most: int = 100) -> Amount:
    return Amount(random.choice([0, 0, random.randrange(most)]), random.choice([0.0, random.randrange(most) / 8]))


def demand(random: Random, account: str, used: Amount) -> Demand:
    limit = {kind: float(random.choice([60, 100, 300])) for kind in ("tokens", "dollars") if random.random() < 0.8}
    return Demand(
        account,
        limit,
        random.random() < 0.3,
        used,
        random.randrange(3),
        some(random),
        random.choice(["", "1", "2"]) if "|run|" in account else "",
        random.random() < 0.7,
        random.random() < 0.8,
        random.choice([0, 0, 1, 3]),
        some(random, most=40),
        some(random),
        random.random() < 0.1,
        some(random, most=80),
        some(random),
    )


def report(random: Random, ledger: str, seq: int, last: BudgetReply | None) -> BudgetReport:
    decided = {}
    if random.random() < 0.2:
        decided[random.choice(["a", "b|c", ""])] = BudgetDecision(
            random.randrange(4), ledger, random.choice([None, 50]), random.choice([None, 2.5]), who="ann"
        )
    known = last is not None and random.random() < 0.9
    return BudgetReport(
        PROTOCOL,
        ledger,
        random.choice(["p", "p", "p", "q"]),
        seq - (random.random() < 0.05),
        last.epoch if known and last else random.choice(["", "old"]),
        (last.version if known and last else 0) + (random.random() < 0.03) * 1000,
        last.rev if known and last else 0,
        [demand(random, each, some(random)) for each in ACCOUNTS if random.random() < 0.7],
        decided,
        random.choice([None, Defaults(tokens=5), Defaults(per="day", pool_dollars=1.5)]),
        random.random() < 0.05,
    )


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_reported_is_answered(redis: Any, seed: int) -> None:
    """However absurd it is."""
    random = Random(seed)
    redis.flushall()
    run = redis.register_script((Path(hivemind.fleet.__path__[0]) / "budgets.lua").read_text())
    now, last = START, dict[str, BudgetReply]()
    for seq in range(1, 60):
        often = [0.0, 0.25, 1.0, 5.0, 200.0, 4000.0, 100_000.0, 1e6, 1e7]
        now += random.choice(often) if random.random() < 0.2 else 0.25
        if random.random() < 0.02:
            redis.flushall()
        ledger = random.choice("xyz")
        told = report(random, ledger, seq, last.get(ledger))
        answer = run(keys=[KEY], args=[msgspec.json.encode(told), f"seed{seq}", CHANNEL, repr(now)])
        reply = last[ledger] = msgspec.json.decode(answer, type=BudgetReply)
        assert {part.account for part in reply.accounts} <= {each.account for each in told.accounts}
        assert all(min(part.used.tokens, part.chunk.tokens, part.chunk.dollars) >= 0 for part in reply.accounts)


def test_another_protocol_is_refused(redis: Any) -> None:
    """By a word that is no answer."""
    redis.flushall()
    run = redis.register_script((Path(hivemind.fleet.__path__[0]) / "budgets.lua").read_text())
    run(keys=[KEY], args=[msgspec.json.encode(BudgetReport(PROTOCOL, "x", "p", 1)), "seed", CHANNEL])
    assert run(keys=[KEY], args=[msgspec.json.encode(BudgetReport(9, "x", "p", 2)), "seed", CHANNEL]) == b"protocol"


def test_what_is_no_longer_needed_goes(redis: Any) -> None:
    """Little by little; accounts that count for ever stay longer."""
    redis.flushall()
    run = redis.register_script((Path(hivemind.fleet.__path__[0]) / "budgets.lua").read_text())

    def tell(seq: int, now: float, accounts: list[Demand]) -> None:
        told = BudgetReport(PROTOCOL, "x", "p", seq, accounts=accounts)
        run(keys=[KEY], args=[msgspec.json.encode(told), "seed", CHANNEL, repr(now)])

    periods = ("run", "ever", "day:2026-11-23")
    tell(1, START, [Demand(f"agent|{period}|a{n}", {"tokens": 9.0}) for period in periods for n in range(50)])
    for seq in range(2, 40):
        tell(seq, START + 9 * 86400 + seq, [])
    kept = [name.decode().split("|")[2] for name in redis.hkeys(KEY) if name.startswith(b"account|")]
    assert (len(kept), set(kept)) == (50, {"ever"})
    for seq in range(40, 80):
        tell(seq, START + 91 * 86400 + seq, [])
    assert redis.hkeys(KEY) == [b"state"]
