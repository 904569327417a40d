"""A proxy elsewhere as a source: what it shows, what it carries out, and how a lost one is told and mended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest
from control.kit import RUN, TOKEN, busy_proxy, controlled, proving
from ports import unused_port
from waiting import until
from world.kit import arrived, commanded, sampled, state, told

from hivemind.control.codec import snapshot_part
from hivemind.control.discovery import Token
from hivemind.errors import UsageError
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.events import Commanded
from hivemind.settings.write import Draft
from hivemind.store.token_file import ControlKey
from hivemind_tui.sources.base import Link
from hivemind_tui.sources.remote import AttachedSource, PollPace, attached

HANGS_S = 60
OURS = Token(TOKEN, "HIVEMIND_CONTROL_TOKEN")
QUICK = PollPace(looked_at_s=0.002, unseen_s=0.002, lately_s=1000.0, again_s=0.001, again_most_s=0.004)
NEVER = PollPace(looked_at_s=1000.0, unseen_s=2000.0, lately_s=3000.0, again_s=1000.0, again_most_s=1000.0)


@contextlib.asynccontextmanager
async def watching(url: str, token: Token = OURS, pace: PollPace = QUICK) -> AsyncIterator[AttachedSource]:
    """Attached to what is at that URL, and asked once."""
    async with (
        asyncio.timeout(HANGS_S),
        httpx.AsyncClient(trust_env=False, timeout=HANGS_S) as http,
        AttachedSource(url, token, http, name="ann@desk", pace=pace, wall=lambda: 77.0) as source,
    ):
        await source.first_answer.wait()
        yield source


async def test_it_shows_the_world() -> None:
    """What the proxy knows is known here, at first and after everything that happens."""
    proxy = busy_proxy()
    async with controlled(proxy) as url, watching(url) as source:
        assert source.snapshot() == proxy.snapshot()
        assert source.link == Link("attached", url)
        for at in range(11, 30):
            proxy.at = float(at)
            proxy.happens(sampled(at, state()), commanded("Drain", at=float(at), draining=True))
            await until(lambda: source.snapshot() == proxy.snapshot())


async def test_it_shows_requests() -> None:
    """Requests come once somebody asks for them, and then as they change; each one in full is asked for by itself."""
    proxy = busy_proxy()
    async with controlled(proxy) as url, watching(url) as source:
        await until(lambda: source.requests()[::-1] == proxy.requests(0).changed != ())
        proxy.happens(arrived(3, at=9.0))
        await until(lambda: [view.ticket for view in source.requests()] == [3, 2, 1])
        assert await source.detail(1) == proxy.detail(1)
        assert await source.detail(99) is None


async def test_before_the_first_answer() -> None:
    """There is an empty world with the URL as its address, and it is told that nothing came yet."""
    async with httpx.AsyncClient(timeout=60) as http:
        source = AttachedSource("http://proxy:1", OURS, http, clock=lambda: 5.0, wall=lambda: 77.0)
        snapshot = source.snapshot()
        assert (snapshot.address, snapshot.wall, snapshot.agents, snapshot.lanes) == ("http://proxy:1", 77.0, (), ())
        assert (source.link.lost_for_s, source.link.why) == (0.0, "connecting")
        assert source.requests() == ()


async def test_commands() -> None:
    """They are signed with the name of this place."""
    proxy = busy_proxy()
    async with controlled(proxy) as url, watching(url) as source:
        await source.apply(cmd.PauseAdmissions(True))
        await source.apply(cmd.PauseAdmissions(False))
        assert proxy.applied == [(cmd.PauseAdmissions(True), "ann@desk"), (cmd.PauseAdmissions(False), "ann@desk")]
        proxy.reject = "no agent named 'bob'; known: ann"
        with pytest.raises(cmd.Rejected, match=r"^no agent named 'bob'; known: ann$"):
            await source.apply(cmd.PauseAgent("bob", True))


async def test_what_was_done_from_here_is_told_so() -> None:
    """The log tells it apart from what others did, whose names it gives."""
    proxy = busy_proxy()
    for who in ("ann@desk", "bob@lab"):
        proxy.happens(Commanded(9.5, who, "PauseAdmissions", {"paused": True}))
    async with controlled(proxy) as url, watching(url) as source:
        mine, other = source.snapshot().lines[-2:]
        assert (mine.tag, mine.text) == ("you", "everything paused")
        assert (other.tag, other.text) == ("pause", "everything paused, by bob@lab")


async def test_what_came_of_a_command_is_seen_at_once() -> None:
    """The world is asked for after it, without waiting for its turn."""
    proxy = busy_proxy()
    async with controlled(proxy) as url, watching(url, pace=NEVER) as source:
        proxy.at = 11.0
        assert source.snapshot().at == 10.0
        await source.apply(cmd.PauseAdmissions(True))
        await until(lambda: source.snapshot().at == 11.0)


async def test_settings(tmp_path: Path) -> None:
    """What was tuned is drafted and written where the proxy runs."""
    file = tmp_path / "hivemind.toml"
    file.write_text("rpm = 10\n")
    async with controlled(busy_proxy(file)) as url, watching(url) as source:
        draft = await source.draft({"rpm": 50})
        assert (draft.path, draft.before, draft.after) == (file, "rpm = 10\n", "rpm = 50\n")
        file.write_text("rpm = 20\n")
        with pytest.raises(cmd.Rejected, match="has changed in the meantime"):
            await source.write(draft)
        await source.write(await source.draft({"rpm": 50}))
        assert file.read_text() == "rpm = 50\n"


async def test_lost_and_mended() -> None:
    """What was heard last stays, its age and the reason are told, nothing is carried out, and it mends by itself."""
    proxy, now = busy_proxy(), [100.0]
    async with asyncio.timeout(HANGS_S), httpx.AsyncClient(trust_env=False, timeout=HANGS_S) as http:
        url = f"http://127.0.0.1:{unused_port()}"
        async with AttachedSource(url, OURS, http, name="ann", pace=QUICK, clock=lambda: now[0]) as source:
            async with controlled(proxy, port_of(url)):
                await until(lambda: source.link.lost_for_s is None)
            await until(lambda: source.link.why.startswith("nothing listens"))  # one that was asked already breaks off
            now[0] = 107.5
            assert (source.link.lost_for_s, source.link.why) == (7.5, "nothing listens there; start the proxy")
            assert source.snapshot() == proxy.snapshot()
            await refused(source, f"not connected to {url}: nothing listens there; start the proxy")
            async with controlled(proxy, port_of(url)):
                await until(lambda: source.link.lost_for_s is None)
                await source.apply(cmd.Drain(True))
        assert proxy.applied == [(cmd.Drain(True), "ann")]


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


async def refused(source: AttachedSource, why: str) -> None:
    """Nothing can be asked, nothing is done, and each says so."""
    nothing = Draft(Path("hivemind.toml"), "", "")
    for asked, then in (
        (source.apply(cmd.Drain(True)), "; nothing was changed"),
        (source.write(nothing), "; nothing was written"),
        (source.draft({"rpm": 5.0}), ""),
        (source.detail(1), ""),
    ):
        with pytest.raises(cmd.Rejected) as caught:
            await asked
        assert str(caught.value) == why + then


async def test_lost_in_the_middle_of_a_command() -> None:
    """Where a command was sent and no answer came, nobody says that nothing happened."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            part = snapshot_part(busy_proxy().snapshot(), RUN, None)
            return httpx.Response(200, content=msgspec.json.encode(part))
        raise httpx.ReadError("reset", request=request)

    async with (
        httpx.AsyncClient(transport=proving(answer)) as http,
        AttachedSource("http://proxy:1", OURS, http, pace=NEVER) as source,
    ):
        await source.first_answer.wait()
        with pytest.raises(cmd.Rejected) as caught:
            await source.apply(cmd.Drain(True))
    said = "not connected to http://proxy:1: the connection broke off; it isn't known whether it was done"
    assert str(caught.value) == said


async def test_started_anew(tmp_path: Path) -> None:
    """After a restart the new token is found where the old one was, and nothing of the old run is left."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    proxy = busy_proxy()
    async with controlled(proxy) as url, watching(url, Token(TOKEN, str(file), file)) as source:
        await until(lambda: len(source.requests()) == 2)
        proxy.control_key = ControlKey("run-2", "another-token")
        proxy.fold = told(arrived(1, "bob", at=1.0))
        await until(lambda: source.link.lost_for_s is not None)
        assert source.link.why.startswith(f"it doesn't take the token from {file}: that is not this proxy's")
        file.write_text("another-token")
        await until(lambda: source.link.lost_for_s is None)
        assert source.snapshot() == proxy.snapshot()
        await until(lambda: [view.agent for view in source.requests()] == ["bob"])


async def test_out_of_step() -> None:
    """A part that doesn't join what is known is no loss: the whole is asked for."""
    proxy = busy_proxy()
    async with controlled(proxy) as url, watching(url, pace=NEVER) as source:
        # The same run, with a past that it can't have had.
        proxy.fold = told(*(sampled(float(at), state()) for at in range(9)))
        await source.apply(cmd.Drain(True))
        await until(lambda: source.snapshot() == proxy.snapshot())


async def test_two_at_once() -> None:
    """Two screens see the same, and what one does is seen by the other; one that leaves doesn't matter to it."""
    proxy = busy_proxy()
    async with controlled(proxy) as url, watching(url) as one:
        async with watching(url) as other:
            await other.apply(cmd.PauseAdmissions(True))
            proxy.happens(commanded("PauseAdmissions", at=10.0, who="ann@desk", paused=True))
            await until(lambda: one.snapshot().mode == other.snapshot().mode == "paused")
        proxy.at = 11.0
        await until(lambda: one.snapshot().at == 11.0)


async def test_nobody_looks() -> None:
    """Then the world is asked for seldom and the requests never; whoever looks again needn't wait for the next time."""
    proxy, now = busy_proxy(), [0.0]
    seldom = PollPace(unseen_s=1000.0, lately_s=3.0)
    async with (
        asyncio.timeout(HANGS_S),
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
        controlled(proxy) as url,
    ):
        source = AttachedSource(url, OURS, http, pace=seldom, clock=lambda: now[0])
        now[0] = 10.0
        async with source:
            await source.first_answer.wait()
            proxy.at = 20.0
            assert source.snapshot().at == 10.0
            await until(lambda: source.snapshot().at == 20.0)
            assert proxy.asked_since == []
            now[0] = 30.0
            source.requests()
            await until(source.requests)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:8765", "must begin with http://"),
        ("http://ann:secret@host", "no user name or password"),
        ("http://127.0.0.1:8765", "no proxy of yours runs at"),
        ("http://10.0.0.5:8765", "put the proxy's control token in HIVEMIND_CONTROL_TOKEN"),
    ],
)
async def test_bad_input(tmp_path: Path, url: str, said: str) -> None:
    """What can't be attached to is told before anything else happens."""
    with pytest.raises(UsageError, match=said):
        async with attached(url, {"HIVEMIND_STATE_DIR": str(tmp_path)}):
            pytest.fail("attached")
