"""The real proxy leaves a journal: of what happened, of bodies where that is asked for, and of no credential."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import logging
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy.kit import Close, Play, Running, client, playing, proxying, raw, request
from proxy.wire import ANSWER, MESSAGE, PLAIN_BODY, SSE, STREAM_BODY, chunk, head, http
from upstream.scripted import Scripted, serving
from waiting import until

from hivemind.journal.index.builder import world_of
from hivemind.journal.read.reader import Journal, open_journal
from hivemind.journal.records import JournalBegan, JournalEnded, RequestBody, ResponseBody
from hivemind.journal.write import bodies
from hivemind.scheduler import events as ev
from hivemind.scheduler.events import Event
from hivemind.wire.fleet_lanes import machine

MESSAGES = "/agent/alice/v1/messages"
TOKEN = "hm-token-ALSOSECRET"


def journal_in(folder: Path) -> tuple[Journal, list[Event]]:
    """The one that is there, and everything in it."""
    (path,) = folder.iterdir()
    journal = open_journal(path)
    return journal, list(journal.events())


@contextlib.asynccontextmanager
async def recorded(
    folder: Path, *plays: Play, bodies: bool = False, token: str | None = None
) -> AsyncIterator[tuple[Running, Scripted]]:
    """A proxy that records in that folder, and the upstream that it stands before."""
    async with (
        serving(playing(*plays)) as upstream,
        proxying(f"lab={upstream.url}", record_in=folder, journal={"bodies": bodies}, token=token) as proxy,
    ):
        yield proxy, upstream


def of(events: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in events if type(event) is kind]


async def test_a_replay_shows_the_vitals_that_were_shown(tmp_path: Path) -> None:
    """Rates, times and their distribution, to the last digit."""
    folder = tmp_path / "journals"
    async with recorded(folder, [http(502)], [ANSWER], [ANSWER]) as (proxy, _), client() as web:
        for _ in range(2):
            await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)
        await until(lambda: proxy.snapshot().totals.finished == 2)  # it is told once the client has its answer
        live = proxy.snapshot()
    journal, events = journal_in(folder)
    world = world_of(journal.began, None)
    for event in events:
        if event.at <= live.at:
            world.apply(event)
    found = world.snapshot(live.at)
    assert found.vitals.error_share == 1 / 3
    assert sum(found.vitals.ttfts.bins) == 2
    assert found.vitals == live.vitals
    assert found.forecast.windows == live.forecast.windows
    assert found.agents == live.agents


async def test_what_happened(tmp_path: Path) -> None:
    """Everything from the first line to the last, and no body."""
    folder = tmp_path / "journals"
    async with recorded(folder, [http(502)], [ANSWER]) as (proxy, upstream), client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)
        view = proxy.snapshot().recording
        assert view is not None
        assert (view.failing, view.lost) == ("", 0)
    journal, events = journal_in(folder)
    assert answer.status_code == 200
    assert (journal.began.upstreams, journal.began.bodies) == ((("lab", upstream.url),), False)
    assert (journal.began.fleet, journal.began.machine) == (False, machine())
    assert journal.damage.messages() == []
    kinds = [type(event) for event in events if not isinstance(event, ev.Sampled | ev.LevelChanged)]
    began, *course, ended = kinds
    assert (began, ended) == (JournalBegan, JournalEnded)
    assert course == [ev.LaneOpened, ev.Arrived, ev.Granted, ev.AttemptFailed, ev.Granted, ev.FirstContent, ev.Finished]
    assert view.path == str(journal.path)
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_a_place_where_nothing_can_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One warning, the traffic goes on without a journal, and whoever looks at the proxy sees that."""
    (tmp_path / "file").write_text("")
    async with recorded(tmp_path / "file", [ANSWER]) as (proxy, _), client() as web:
        assert (await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)).status_code == 200
        view = proxy.snapshot().recording
        assert view is not None
        assert (view.path, view.failing) == (str(tmp_path / "file"), "its file couldn't be made")
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert str(tmp_path / "file") in warnings[0]


async def test_bodies(tmp_path: Path) -> None:
    """What was sent, and what each attempt was answered, unpacked, in words that can be read."""
    packed = gzip.compress(json.dumps({"content": "grüß"}).encode())
    plays: list[Play] = [[http(502, {"error": "no"})], [http_bytes(packed, "content-encoding: gzip")]]
    async with recorded(tmp_path, *plays, bodies=True) as (proxy, _), client() as web:
        answer = await web.post(f"{proxy.url}{MESSAGES}?beta=true", content=PLAIN_BODY, headers={"x-mine": "1"})
        assert answer.json() == {"content": "grüß"}
    journal, events = journal_in(tmp_path)
    (asked,) = of(events, RequestBody)
    assert isinstance(asked, RequestBody)
    assert (asked.method, asked.path, asked.body) == ("POST", "/v1/messages?beta=true", PLAIN_BODY.decode())
    assert ("x-mine", "1") in asked.headers
    answers = [event for event in events if isinstance(event, ResponseBody)]
    assert [(each.attempt, each.status, json.loads(each.body)) for each in answers] == [
        (1, 502, {"error": "no"}),
        (2, 200, {"content": "grüß"}),
    ]
    assert ("content-encoding", "gzip") in answers[1].headers
    assert {asked.encoding, asked.left_out, *(each.encoding + each.left_out for each in answers)} == {""}
    assert journal.began.bodies


def http_bytes(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", "content-type: application/json", *headers, f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """They are there as base64."""
    sound = bytes(range(256))
    async with recorded(tmp_path, [http_bytes(sound)], bodies=True) as (proxy, _), client() as web:
        assert (await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)).content == sound
    (answer,) = of(journal_in(tmp_path)[1], ResponseBody)
    assert isinstance(answer, ResponseBody)
    assert (answer.encoding, base64.b64decode(answer.body)) == ("base64", sound)


async def test_a_stream_that_is_cut(tmp_path: Path) -> None:
    """What it brought is there."""
    begun = b"".join(MESSAGE[: len(MESSAGE) // 2])
    async with (
        recorded(tmp_path, [head(SSE), chunk(begun), Close()], bodies=True) as (proxy, _),
        raw(proxy.port) as web,
    ):
        await web.send(request(MESSAGES, STREAM_BODY))
        await web.rest()
    answers = [event for event in journal_in(tmp_path)[1] if isinstance(event, ResponseBody)]
    assert answers
    assert {answer.body for answer in answers} == {begun.decode()}


async def test_a_client_that_leaves(tmp_path: Path) -> None:
    """What it had been answered by then is there."""
    hold = asyncio.Event()
    begun = b"".join(MESSAGE[: len(MESSAGE) // 2])
    async with recorded(tmp_path, [head(SSE), chunk(begun), hold], bodies=True) as (proxy, upstream):
        async with raw(proxy.port) as web:
            await web.send(request(MESSAGES, STREAM_BODY))
            await upstream.until(lambda: bool(upstream.requests))
            await proxy.until(lambda world: any(slot.state == "streaming" for slot in world.slots))
        await proxy.until(lambda world: not world.slots)
    (answer,) = of(journal_in(tmp_path)[1], ResponseBody)
    assert isinstance(answer, ResponseBody)
    assert answer.body == begun.decode()


async def test_bodies_that_are_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are left out, and it is said why; packed ones may be short and yet too long."""
    monkeypatch.setattr(bodies, "LONGEST", 1000)
    packed = gzip.compress(b"x" * 2000)
    plays: list[Play] = [[http_bytes(b"y" * 2000)], [http_bytes(packed, "content-encoding: gzip")]]
    async with recorded(tmp_path, *plays, bodies=True) as (proxy, _), client() as web:
        for _ in plays:
            answer = await web.post(proxy.url + MESSAGES, content=b"z" * 3000)
            assert len(answer.content) == 2000
    found = [event for event in journal_in(tmp_path)[1] if isinstance(event, RequestBody | ResponseBody)]
    assert len(found) == 4
    assert all(event.left_out and not event.body for event in found)


KEYS = st.one_of(
    st.from_regex(r"sk-ant-api03-[A-Za-z0-9_-]{20,40}", fullmatch=True),
    st.from_regex(r"sk-proj-[A-Za-z0-9]{20,40}", fullmatch=True),
    st.from_regex(r"AIza[A-Za-z0-9_-]{35}", fullmatch=True),
    st.from_regex(r"ghp_[A-Za-z0-9]{36}", fullmatch=True),
    st.from_regex(r"eyJ[A-Za-z0-9_-]{20}\.[A-Za-z0-9_-]{30}\.[A-Za-z0-9_-]{20}", fullmatch=True),
)
PLACES = (
    "x-api-key",
    "authorization",
    "api-key",
    "x-goog-api-key",
    "query",
    "cookie",
    "body",
    "lent",
    "echoed",
    "path",
)


@settings(max_examples=examples(25), deadline=None)
@given(key=KEYS, places=st.sets(st.sampled_from(PLACES), min_size=1), packed=st.booleans())
async def test_no_credential(
    tmp_path_factory: pytest.TempPathFactory, key: str, places: set[str], packed: bool
) -> None:
    """Wherever it stands in a request or an answer, it isn't in the file, nor in its name; the rest can be read."""
    folder = tmp_path_factory.mktemp("journals")
    headers = {name: key for name in places & {"x-api-key", "api-key", "x-goog-api-key"}}
    if "authorization" in places:
        headers["authorization"] = f"Bearer {key}"
    if "cookie" in places:
        headers["cookie"] = f"session={key}; theme=dark"
    ask = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    if "body" in places:
        ask["messages"] = [{"role": "user", "content": f'my key is "{key}", my header Bearer {key}'}]
    if "lent" in places:
        ask["mcp_servers"] = [{"url": "https://tools.example", "authorization_token": key}]
    said = json.dumps({"content": f"you sent {key}, keep it safe" if "echoed" in places else "hello"}).encode()
    play = http_bytes(gzip.compress(said), "content-encoding: gzip") if packed else http_bytes(said)
    path = f"{MESSAGES}?key={quote(key)}&beta=true" if "query" in places else f"{MESSAGES}?beta=true"
    async with recorded(folder, [play], bodies=True, token=TOKEN) as (proxy, _), client() as web:
        own = f"/token/{TOKEN}" if "path" in places else ""
        headers |= {} if own else {"x-hivemind-token": TOKEN}
        answer = await web.post(proxy.url + own + path, json=ask, headers=headers)
        assert answer.content == said
    (file,) = folder.iterdir()
    text = file.read_text()
    assert (key in text, TOKEN in text, key in str(file)) == (False, False, False)
    _, events = journal_in(folder)
    (asked,), (answered,) = of(events, RequestBody), of(events, ResponseBody)
    assert isinstance(asked, RequestBody)
    assert isinstance(answered, ResponseBody)
    assert json.loads(asked.body)["model"] == "m"
    assert "content" in json.loads(answered.body)
    assert "beta=true" in asked.path
