"""Real proxies that share a limit through a real Redis, before one upstream that counts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fleet.kit import Counting, ask, fleet_of, state_of
from proxy.kit import client
from redis_server import running
from waiting import until

from hivemind.fleet.store import StoreError

pytestmark = pytest.mark.e2e


async def test_two_proxies_share_a_limit() -> None:
    upstream = Counting()
    with running() as store:
        async with fleet_of(2, store.url, upstream, rpm=60) as proxies, client() as web:
            asked = [[asyncio.create_task(ask(web, each.url, f"a{n}")) for n in range(50)] for each in proxies]
            await until(lambda: len(upstream.at) >= 60)
            assert [state_of(each) for each in proxies] == ["leased", "leased"]
            await asyncio.sleep(1.0)  # in which the sixtieth of a minute may go through, and no more
            served = [sum(task.done() for task in tasks) for tasks in asked]
            for task in (*asked[0], *asked[1]):
                task.cancel()
            assert len(upstream.at) <= 62
            assert abs(served[0] - served[1]) <= 6


async def test_each_sees_the_others() -> None:
    upstream = Counting()
    with running() as store:
        async with fleet_of(2, store.url, upstream) as proxies, client() as web:
            for each in proxies:
                assert await ask(web, each.url, "alice") == 200
            async with asyncio.timeout(20):
                while True:
                    fleet = await proxies[0].proxy.fleet()
                    if [member.state for member in fleet.members] == ["leased", "leased"]:
                        break
                    await asyncio.sleep(0.05)
            assert len(fleet.lanes) == 1
            assert fleet.store == store.url
        # Both have left.
        assert store.command("ZCARD", "hm:proxies") == "0"
        assert '"members":{}' in store.command("GET", store.command("KEYS", "hm:lane:*")[3:-2])


async def test_what_is_told_of_it(caplog: pytest.LogCaptureFixture) -> None:
    upstream = Counting()
    with running(password="canary-5f2d8c6b1e") as store:
        async with fleet_of(1, store.url, upstream) as (proxy,), client() as web:
            assert await ask(web, proxy.url, "alice") == 200
            await until(lambda: state_of(proxy) == "leased")
            assert (await web.get(f"{proxy.url}/_health")).json()["fleet"] == "leased"
            view = proxy.snapshot().fleet
            assert view is not None
            assert (view.lanes, view.members, view.text) == (1, 1, "requests go on with leases")
            metrics = (await web.get(f"{proxy.url}/metrics")).text
            assert 'hivemind_fleet_state{state="leased"} 1\n' in metrics
            store.kill()
            await until(lambda: state_of(proxy) == "safe")
            assert await ask(web, proxy.url, "alice") == 200
            store.start()
            await until(lambda: state_of(proxy) == "leased")
            view = proxy.snapshot().fleet
            assert view is not None
            assert view.errors["refused"] > 0
            everything = f"{await proxy.stats()}{caplog.text}{metrics}{proxy.proxy.settings!r}"
            assert "canary" not in everything


async def test_the_rights_that_the_manual_names_suffice() -> None:
    """Leases, presence and the channels, and nothing of other programs."""
    manual = Path(__file__).parents[2] / "docs" / "fleet.md"
    (line,) = [each.split() for each in manual.read_text().splitlines() if each.startswith("    ACL SETUSER")]
    upstream = Counting()
    with running() as store:
        store.command(*line)
        password = line[line.index("on") + 1].removeprefix(">")
        url = store.url.replace("redis://", f"redis://{line[2]}:{password}@")
        async with fleet_of(2, url, upstream, rpm=60) as proxies, client() as web:
            for each in proxies:
                assert await ask(web, each.url, "alice") == 200
            async with asyncio.timeout(20):
                while len((await proxies[0].proxy.fleet()).members) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            for each in proxies:
                assert (await each.proxy.fleet()).away == ""
                part = each.proxy.fleet_part
                assert part is not None
                assert part.link.view().errors == {}
                with pytest.raises(StoreError, match="refuses a command"):
                    await part.store.call("GET", "of another program")
        denied = store.command("ACL", "LOG")
        assert "of another program" in denied
        assert denied.count("'reason'") <= 1
