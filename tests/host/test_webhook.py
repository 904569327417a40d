"""Alerts of a running proxy, raised and over once each, and their webhook: signed, retried, bounded, in no log."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from proxy.kit import between

from hivemind.errors import UsageError
from hivemind.host import alerts
from hivemind.host.alerts import ATTEMPTS_MOST, WAITING_MOST, Webhook
from hivemind.journal.index.builder import world_of
from hivemind.journal.read.reader import open_journal
from hivemind.scheduler.commands import Acknowledge, AddNote, BeginAgent, Conflict, EndAgent
from hivemind.scheduler.events import AlertOver, AlertRaised, Commanded
from hivemind.settings import Settings
from hivemind.settings.load import load

SECRET = "not-so-secret-after-all"
RAISED = AlertRaised(3.0, 1, "died", "ann", "ann died (exit code 3)")
OVER = AlertOver(4.0, 1, "died", "ann", "ann died (exit code 3)")


class Receiver:
    """Answers requests with these statuses in turn, the last one from then on; 0: closes the connection."""

    def __init__(self, statuses: Sequence[int]) -> None:
        self.statuses = list(statuses)
        self.heads: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        head = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        self.bodies.append(await reader.readexactly(int(head["content-length"])))
        self.heads.append(head)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status:
            writer.write(b"HTTP/1.1 %d X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
        writer.close()


@asynccontextmanager
async def receiving(*statuses: int) -> AsyncIterator[Receiver]:
    receiver = Receiver(statuses)
    server = await asyncio.start_server(receiver.answer, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks/T0P-S3CRET?key=hidden"
    try:
        yield receiver
    finally:
        server.close()


@asynccontextmanager
async def hook(url: str, secret: str = SECRET) -> AsyncIterator[Webhook]:
    made = Webhook(url, secret, wall=lambda: 1_764_000_000.5, first_delay_s=0.001)
    try:
        yield made
    finally:
        await made.aclose()


async def test_a_receiver_that_fails_first_gets_each_alert_once_signed_and_in_order() -> None:
    """It may be away, overloaded or slow down; the attempts of one alert have one id."""
    async with receiving(0, 503, 429, 200) as receiver, hook(receiver.url) as webhook:
        webhook.tell(RAISED, "http://127.0.0.1:8765", "DEGRADED ann died (exit code 3)")
        webhook.tell(OVER, "http://127.0.0.1:8765", "HEALTHY")
        await webhook.settled()
        assert len(receiver.bodies) == 5
        assert len(set(receiver.bodies[:4])) == 1
        assert len({head["x-hivemind-delivery"] for head in receiver.heads[:4]}) == 1
        assert receiver.heads[4]["x-hivemind-delivery"] != receiver.heads[0]["x-hivemind-delivery"]
        for head, body in zip(receiver.heads, receiver.bodies, strict=True):
            signed = head["x-hivemind-timestamp"].encode() + b"." + body
            digest = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
            assert head["x-hivemind-signature"] == f"sha256={digest}"
        first, last = json.loads(receiver.bodies[0]), json.loads(receiver.bodies[-1])
        assert first == {
            "event": "alert.raised",
            "number": 1,
            "rule": "died",
            "about": "ann",
            "text": "ann died (exit code 3)",
            "time": 1_764_000_000.5,
            "proxy": "http://127.0.0.1:8765",
            "verdict": "DEGRADED ann died (exit code 3)",
        }
        assert (last["event"], last["verdict"]) == ("alert.over", "HEALTHY")


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (302, 1), (500, ATTEMPTS_MOST), (0, ATTEMPTS_MOST)])
async def test_what_is_not_taken_is_told_without_its_url(
    status: int, attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal for good isn't repeated, and nothing is for ever; another alert is tried anew."""
    caplog.set_level(logging.DEBUG)
    async with receiving(status) as receiver, hook(receiver.url) as webhook:
        webhook.tell(RAISED, "", "")
        await webhook.settled()
        assert len(receiver.bodies) == attempts
        receiver.statuses = [200]
        webhook.tell(OVER, "", "")
        await webhook.settled()
        assert len(receiver.bodies) == attempts + 1
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warning.startswith("an alert didn't reach the webhook: ")
    assert not [word for word in ("T0P", "hidden", SECRET) if word in caplog.text]


async def test_without_a_secret_nothing_is_signed() -> None:
    async with receiving(204) as receiver, hook(receiver.url, "") as webhook:
        webhook.tell(RAISED, "", "")
        await webhook.settled()
        assert "x-hivemind-signature" not in receiver.heads[0]


async def test_of_too_many_the_newest_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving(200) as receiver, hook(receiver.url) as webhook:
        for number in range(WAITING_MOST + 5):
            webhook.tell(AlertRaised(3.0, number, "died", "ann", ""), "", "")
        await webhook.settled()
        assert sorted(json.loads(body)["number"] for body in receiver.bodies) == list(range(5, WAITING_MOST + 5))


@pytest.mark.parametrize("part", [b"HTTP/1.1 200 OK\r\nx-a: b\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_receiver_that_dribbles_silences_no_other_alert(
    part: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The attempt ends at its deadline though bytes come all the time; what is told of other alerts arrives meanwhile,
    and that of the same one after it."""
    monkeypatch.setattr(alerts, "ATTEMPTS_MOST", 2)
    taken: list[tuple[int, str]] = []
    others = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split()[0])
        told = json.loads(await reader.readexactly(size))
        with contextlib.suppress(OSError, RuntimeError):  # the other end has closed the connection
            if (told["number"], told["event"]) == (1, "alert.raised"):
                writer.write(part)
                while True:
                    await asyncio.sleep(0.001)
                    writer.write(b"x-c: d\r\n" if b"200" in part else part)
                    await writer.drain()
            else:
                taken.append((told["number"], told["event"]))
                if {number for number, _ in taken} == {2, 3, 4}:
                    others.set()
                # A body without an end isn't read.
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n" + b"x" * 100_000)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    webhook = Webhook(url, first_delay_s=0.001, timeout_s=1.0)
    try:
        webhook.tell(RAISED, "", "")
        webhook.tell(OVER, "", "")
        for number in (2, 3, 4):
            webhook.tell(AlertRaised(3.0, number, "died", "bob", ""), "", "")
        async with asyncio.timeout(20):
            await others.wait()
            await webhook.settled()
        assert taken[-1] == (1, "alert.over")
        assert [each.getMessage() for each in caplog.records] == [
            "an alert didn't reach the webhook: TimeoutError, 2 times"
        ]
    finally:
        await webhook.aclose()
        server.close()


async def test_a_proxy_ends_although_its_webhook_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "CLOSE_S", 0.01)
    async with receiving(503) as receiver, hook(receiver.url) as webhook:
        webhook._first_delay_s = 1000.0
        webhook.tell(RAISED, "", "")


async def test_a_proxys_alerts_reach_it_and_nothing_keeps_its_url(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither journal, log, snapshot nor settings."""
    caplog.set_level(logging.DEBUG)
    async with receiving(500, 200) as receiver:
        given = {"webhook": receiver.url, "webhook_secret": SECRET}
        async with between([], record_in=tmp_path, alerts=given) as (running, _):
            webhook = running.proxy.webhook
            assert webhook is not None
            webhook._first_delay_s = 0.001
            running.proxy.apply(BeginAgent("dmitri"))
            running.proxy.apply(EndAgent("dmitri", 3))
            running.proxy.watch.check_alerts()
            await webhook.settled()
            shown = repr((running.snapshot(), running.proxy.settings))
        told = json.loads(receiver.bodies[-1])
        assert (told["event"], told["about"]) == ("alert.raised", "dmitri")
        assert told["verdict"].startswith("DEGRADED dmitri died")
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())  # noqa: ASYNC240
    assert b"AlertRaised" in written
    for text in (shown, caplog.text, written.decode("latin1")):
        assert not [word for word in ("T0P-S3CRET", "hidden", SECRET) if word in text]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("WEBHOOK", "ftp://HIDDEN/", "must be a URL with a host"),
        ("WEBHOOK", "https://", "must be a URL with a host"),
        ("WEBHOOK_SECRET", "HIDDEN", "must be at least 16 characters"),
    ],
)
def test_a_wrong_setting_is_told_and_not_repeated(name: str, value: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        load((), environ={f"HIVEMIND_ALERTS__{name}": value}, cwd=Path())
    assert "HIDDEN" not in str(raised.value)


def test_there_is_no_webhook_unless_one_is_set() -> None:
    assert Settings().alerts.webhook is None


async def test_a_death_is_an_alert_until_it_is_seen_and_over(tmp_path: Path) -> None:
    """The verdict is degraded until somebody has seen it."""
    async with between([], record_in=tmp_path) as (running, _):
        proxy = running.proxy
        proxy.apply(BeginAgent("dmitri"))
        proxy.apply(EndAgent("dmitri", 3))
        proxy.watch.check_alerts()
        proxy.watch.check_alerts()
        (alert,) = running.snapshot().alerts
        assert (alert.rule, alert.about, alert.text) == ("died", "dmitri", "dmitri died (exit code 3)")
        assert running.snapshot().verdict.state == "degraded"
        with pytest.raises(Conflict, match="no alert about 'ann' waits"):
            proxy.apply(Acknowledge("ann"))
        proxy.apply(Acknowledge("dmitri"), "ops")
        snapshot = running.snapshot()
        assert (snapshot.alerts[0].acknowledged, snapshot.verdict.state) == ("ops", "healthy")
        proxy.apply(BeginAgent("dmitri"))
        proxy.watch.check_alerts()
        assert running.snapshot().alerts == ()
    (part,) = tmp_path.rglob("*.jsonl*")  # noqa: ASYNC240 - the proxy has ended
    events = list(open_journal(part).events())
    assert [type(event) for event in events if isinstance(event, AlertRaised | AlertOver)] == [AlertRaised, AlertOver]
    (seen,) = [event for event in events if isinstance(event, Commanded) and event.name == "Acknowledge"]
    assert (seen.who, seen.arguments) == ("ops", {"about": "dmitri", "rule": None})


async def test_who_is_quicker_than_the_next_check_acknowledges_too() -> None:
    """What was seen isn't told again a second later."""
    async with between([]) as (running, _):
        running.proxy.apply(BeginAgent("dmitri"))
        running.proxy.apply(EndAgent("dmitri", 3))
        running.proxy.apply(Acknowledge(), "ops")
        running.proxy.watch.check_alerts()
        (alert,) = running.snapshot().alerts
        assert alert.acknowledged == "ops"


async def test_rules_that_are_off_tell_nothing() -> None:
    async with between([], alerts={"died": False}) as (running, _):
        running.proxy.apply(BeginAgent("dmitri"))
        running.proxy.apply(EndAgent("dmitri", 3))
        running.proxy.watch.check_alerts()
        assert running.snapshot().alerts == ()


async def test_the_verdict_goes_by_the_settings_of_alerts_also_in_a_replay(tmp_path: Path) -> None:
    async with between([], alerts={"wait_s": 7, "budget_share": 0.5}, record_in=tmp_path) as (running, _):
        limits = running.snapshot().alert_limits
        assert (limits.wait_s, limits.budget_share) == (7.0, 0.5)
    (part,) = tmp_path.rglob("*.jsonl*")  # noqa: ASYNC240 - the proxy has ended
    began = open_journal(part).began
    assert world_of(began, None).snapshot(began.at).alert_limits == limits


async def test_a_note_is_one_line_without_secrets() -> None:
    """Whatever is pasted into it."""
    async with between([]) as (running, _):
        running.proxy.apply(AddNote("new plan\x1b[31m\nkey sk-ant-api03-" + "a1B2" * 20))
        (line,) = [line for line in running.snapshot().lines if line.tag == "you"]
        assert line.text.startswith("note: new plan?[31m key ")
        assert "a1B2" not in line.text
        for text in ("", " \n", "x" * 201):
            with pytest.raises(Conflict, match="text: must be 1 to 200 characters"):
                running.proxy.apply(AddNote(text))
