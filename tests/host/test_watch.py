"""A running proxy that is broken on purpose says so on every surface; a sound one gives no alarm."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import msgspec
from jsonschema import Draft202012Validator
from proxy.kit import Hang, Running, between, client, raw, request
from proxy.wire import PLAIN_BODY, STREAM_BODY

from hivemind.cli.operator.status import as_facts, shown
from hivemind.control.codec import snapshot_part
from hivemind.control.openapi import description
from hivemind.host import watch
from hivemind.journal.read.reader import open_journal
from hivemind.scheduler.events import InvariantBroken
from hivemind.scheduler.types import Request

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


async def asked(running: Running) -> None:
    """One request is answered, so that there is a lane."""
    async with client() as web:
        answer = await web.post(f"{running.url}/v1/messages", json={"model": "m", "max_tokens": 5, "messages": []})
        assert answer.status_code == 200


async def test_a_sound_proxy_gives_no_alarm() -> None:
    """Checks of a proxy that served a request find nothing."""
    async with between([ANSWER]) as (running, _):
        await asked(running)
        await running.proxy.watch.check()
        assert running.snapshot().alarms == ()
        async with client() as web:
            assert (await web.get(f"{running.url}/_health")).json()["alarms"] == []


async def test_a_leaked_slot_is_shown_everywhere_until_it_is_gone(tmp_path: Path) -> None:
    """Health, status, metrics, log and journal name it once, and its end once."""
    async with between([ANSWER], record_in=tmp_path, checked=False) as (running, _):
        await asked(running)
        proxy, (lane,) = running.proxy, running.proxy.engine._scheduler.lanes.values()
        lane.gate.active += 1
        await proxy.watch.check()
        await proxy.watch.check()
        (alarm,) = running.snapshot().alarms
        assert (alarm.rule, alarm.lane) == ("slots", lane.key)
        assert alarm.text == "1 slot is taken, but 0 attempts are in flight."
        async with client() as web:
            health = (await web.get(f"{running.url}/_health")).json()
            metrics = (await web.get(f"{running.url}/metrics")).text
        assert health["alarms"] == [{"rule": "slots", "text": alarm.text}]
        described = msgspec.json.decode(description())["paths"]["/_health"]["get"]["responses"]["200"]
        Draft202012Validator(described["content"]["application/json"]["schema"]).validate(health)
        assert 'hivemind_alarms{rule="slots"} 1\n' in metrics
        part = snapshot_part(running.snapshot(), "run", None)
        assert f"ALARM slots: {lane.key}: {alarm.text}" in "\n".join(shown(part, 120))
        assert msgspec.to_builtins(as_facts(part)["alarms"])[0]["rule"] == "slots"
        lane.gate.active -= 1
        await proxy.watch.check()
        lines = [line for line in running.snapshot().lines if line.tag == "alarm"]
        assert [line.level for line in lines] == ["bad", "good"]
        assert running.snapshot().alarms == ()
    (part_of_journal,) = tmp_path.rglob("*.jsonl*")  # noqa: ASYNC240 - the proxy has ended
    events = [event for event in open_journal(part_of_journal).events() if isinstance(event, InvariantBroken)]
    assert [(event.rule, event.over) for event in events] == [("slots", False), ("slots", True)]


async def test_a_request_that_nobody_answers_is_found() -> None:
    """A ticket without an exchange would hold its slot for ever."""
    async with between([ANSWER]) as (running, _):
        await asked(running)
        (key,) = running.proxy.engine._scheduler.lanes
        ticket = running.proxy.engine.arrive(Request("ann", key, "m", "m", 1, 1, False))
        await running.proxy.watch.check()
        assert not running.snapshot().alarms, "its task may be about to begin"
        await running.proxy.watch.check()
        (alarm,) = running.snapshot().alarms
        assert (alarm.rule, alarm.lane, alarm.agent) == ("exchange", key, "ann")
        assert alarm.text == f"Request {ticket.id} is in flight, but nothing answers it."
        running.proxy.engine.abandon(ticket)
        await running.proxy.watch.check()
        assert not running.snapshot().alarms


async def test_requests_in_every_stage_have_what_answers_them() -> None:
    """One that is served without a task, one in a task and one that waits: no check finds anything."""
    async with between([ANSWER], [Hang()], max_concurrency=2) as (running, upstream):
        await asked(running)
        async with raw(running.port) as direct, raw(running.port) as streamed, raw(running.port) as waits:
            await direct.send(request("/v1/messages", PLAIN_BODY))
            await upstream.until(lambda: len(upstream.requests) == 2)
            assert running.proxy.app.direct == 1
            await streamed.send(request("/v1/messages", STREAM_BODY))
            await waits.send(request("/v1/messages", STREAM_BODY))
            await running.until(lambda world: world.queued == 1 and len(world.slots) == 2)
            for _ in range(2):
                await running.proxy.watch.check()
            assert not running.snapshot().alarms
            running.proxy.app._direct += 1
            await running.proxy.watch.check()
            (alarm,) = running.snapshot().alarms
            assert alarm.text == "2 requests are counted as served without a task, but 1 has a ticket."
            running.proxy.app._direct -= 1


async def test_what_held_the_loop_is_named() -> None:
    """A callback that sleeps is found by its module and function, while it does and afterwards."""
    held: asyncio.Future[tuple[float, str]] = asyncio.get_running_loop().create_future()
    dog = watch.Watchdog(lambda for_s, where: held.set_result((for_s, where)))
    asyncio.get_running_loop().call_soon(blocks)
    try:
        for_s, where = await held
    finally:
        dog.close()
    assert for_s > watch.LATE_S
    assert f"{__name__}:blocks:" in where


def blocks() -> None:
    time.sleep(3 * watch.LATE_S)


def test_our_own_frame_is_named_before_a_librarys() -> None:
    """Of two frames the innermost one of ours says what to look at."""
    assert watch.place(None) == ""
    assert watch.place(sys._getframe()).startswith(f"{__name__}:test_our_own_frame")


async def test_a_held_loop_is_an_alarm_for_a_while() -> None:
    """It stays while it can be read, and goes by itself."""
    async with between([ANSWER]) as (running, _):
        checks = running.proxy.watch
        checks._loop_held(2.34, "somewhere:f:1")
        await checks.check()
        assert [alarm.text for alarm in running.snapshot().alarms] == [
            "The event loop was held for 2.34 s by somewhere:f:1."
        ]
        checks._held_until = 0.0
        await checks.check()
        assert running.snapshot().alarms == ()
