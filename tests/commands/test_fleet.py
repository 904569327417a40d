"""`hivemind fleet`: who has what of the key, from a proxy or from the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import redis_server
from commands.kit import desk, run
from fleet.fleets import Watched, fleet
from fleet.members import Proxy, opened
from world.kit import arrived, told

from hivemind.cli.operator.fleet import shown
from hivemind.records import replace
from hivemind.world.fleet import Fleet, gathered

Golden = Callable[[str, str], None]


@pytest.mark.parametrize("room", [40, 80, 140, None])
def test_the_table(golden: Golden, room: int | None) -> None:
    """Every proxy, then who has what of each key, with the sums; as much as fits."""
    rows = shown(fleet(keys=2), room)
    assert room is None or max(map(len, rows)) <= room
    if room:
        golden(f"fleet_{room}", "\n".join(rows) + "\n")


def test_a_store_that_is_away_is_told() -> None:
    """With what was known last."""
    text = "\n".join(shown(fleet(away="the store doesn't answer", state="safe"), None))
    assert "this one is safe" in text
    assert "the store doesn't answer" in text


def test_a_proxy_that_is_silent_is_told() -> None:
    """It may have been killed."""
    known = fleet()
    known = gathered([replace(each, seen_s=4.0) for each in known.members], store=known.store)
    assert "\n".join(shown(known, None)).count("silent") == 3


async def test_it_asks_a_proxy(tmp_path: Path) -> None:
    """And prints all of it as JSON."""
    async with desk(tmp_path) as at:
        known = fleet()
        at.proxy.proxy.watcher = Watched(known)  # type: ignore[assignment]
        assert await at.does("fleet", COLUMNS="") == "\n".join(shown(known, None)) + "\n"
        assert msgspec.convert(json.loads(await at.does("fleet --json")), Fleet) == known


async def test_without_a_fleet_it_says_how_to_get_one(tmp_path: Path) -> None:
    """In one line."""
    async with desk(tmp_path) as at:
        ended = await at.run("fleet")
        assert (ended.code, ended.out) == (1, "")
        assert ended.err == (
            "hivemind: this proxy is in no fleet; proxies that share a key join one with --fleet redis://HOST\n"
        )
        assert json.loads(await at.does("fleet --json"))["store"] == ""


async def test_it_asks_the_store(tmp_path: Path) -> None:
    """Without any proxy's token."""
    with redis_server.running() as server:
        empty = await run(tmp_path, "fleet", "--fleet", server.url)
        assert (empty.code, empty.out.splitlines()[-1]) == (
            0,
            "no proxy is there; one joins with hivemind proxy --fleet, and this URL",
        )
        async with opened(server.url) as store:
            for each in fleet().members:
                await Proxy(each, told(arrived()).snapshot(1.0)).beacon(store).beat()
        ended = await run(tmp_path, "fleet", "--fleet", server.url)
        assert ended.code == 0
        for text in ("laptop", "ci-runner-2", "build-server", "11 of 14 slots", "288"):
            assert text in ended.out


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://:canary-8d1f@127.0.0.1:1", "isn't there: connections are refused"),
        ("http://user:canary-8d1f@host", "must be a store's URL"),
    ],
)
async def test_what_is_wrong_is_one_line_without_the_password(tmp_path: Path, url: str, text: str) -> None:
    """Where the password may stand in the URL."""
    ended = await run(tmp_path, "fleet", "--fleet", url)
    assert ended.code != 0
    assert text in ended.err
    assert ended.err.count("\n") == 1
    assert "canary" not in ended.err + ended.out
