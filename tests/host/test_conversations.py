"""What is remembered of what agents said last."""

from __future__ import annotations

import asyncio
import random

from proxy.kit import settings_for
from waiting import until

from hivemind.host.checkpointing import Conversation, Conversations
from hivemind.providers.base import Facts
from hivemind.providers.clients import Client
from hivemind.providers.paths import dialect_for
from hivemind.proxy.routing import open_routes
from hivemind.records import replace
from hivemind.scheduler.types import Priority
from hivemind.wire.call import Call, CallHead
from hivemind.wire.identity import Identity
from hivemind.wire.request_head import parse_path

MIB = 1 << 20
UNKNOWN = Client()


def call(agent: str, body: bytes, client: Client = UNKNOWN) -> Call:
    """A request of an agent's."""
    routes = open_routes(settings_for("lab=http://127.0.0.1:9"), None)
    route = routes.find(parse_path(b"/v1/messages"), b"", [], "")
    dialect, identity = dialect_for("/v1/messages"), Identity(agent, None, True, None)
    path = "/v1/messages"
    head = CallHead(b"POST", path.encode(), [], [], path, "", route, dialect, client, "lab:anonymous")
    return Call(head, body, Facts(), identity)


def held(conversations: Conversations, agent: str) -> bytes:
    """The body that is remembered."""
    found = conversations.find(agent)
    assert found is not None
    return found.call.body


def test_the_newest_of_each() -> None:
    """Every agent has its own, and no copy is made of it."""
    kept, body = Conversations(MIB), b"b" * 99
    for agent, text in (("a", b"first"), ("a", b"second"), ("a/sub", body)):
        kept.keep(call(agent, text), 1.0)
    assert held(kept, "a") == b"second"
    assert held(kept, "a/sub") is body
    assert kept.find("b") is None


def test_bodies_are_bounded_together() -> None:
    """Those go whose agents were silent longest, and what was asked is still known, with the reason."""
    kept = Conversations(MIB, total=300)
    for agent in ("a", "b", "c"):
        kept.keep(call(agent, agent.encode() * 100), 1.0)
    kept.keep(call("a", b"A" * 100), 2.0)
    kept.keep(call("d", b"d" * 150), 3.0)
    assert [held(kept, agent)[:1] for agent in "abcd"] == [b"A", b"", b"", b"d"]
    gone = kept.find("b")
    assert gone is not None
    assert "wasn't held in memory" in gone.left_out
    kept.keep(call("b", b"b" * 50), 4.0)
    assert [held(kept, agent)[:1] for agent in "abd"] == [b"A", b"b", b"d"]
    assert replace(gone.call, body=b"b") != gone.call


def test_one_that_is_too_large_is_not_held() -> None:
    """Nor is the one before it, which isn't what the agent said last."""
    kept = Conversations(MIB)
    kept.keep(call("a", b"small"), 1.0)
    kept.keep(call("a", b"x" * (MIB + 1)), 2.0)
    found = kept.find("a")
    assert found is not None
    assert (found.call.body, found.size, found.left_out[:17]) == (b"", MIB + 1, "it is 1.0 MiB, mo")
    kept.keep(call("a", b"x" * MIB), 3.0)
    assert len(held(kept, "a")) == MIB


def test_agents_are_bounded() -> None:
    """The one that was silent longest is forgotten, and what it held is free again."""
    kept = Conversations(MIB, total=20, agents=2)
    for agent in ("a", "b", "a", "c"):
        kept.keep(call(agent, b"x" * 10), 1.0)
    assert kept.find("b") is None
    assert [held(kept, agent) for agent in "ac"] == [b"x" * 10] * 2


def test_forgotten() -> None:
    """What was held is free again; nobody minds one that isn't there."""
    kept = Conversations(MIB, total=10)
    kept.keep(call("a", b"x" * 10), 1.0)
    kept.forget("a")
    kept.forget("a")
    kept.keep(call("b", b"y" * 10), 1.0)
    assert (kept.find("a"), held(kept, "b")) == (None, b"y" * 10)


def test_sessions() -> None:
    """The session of the newest request is known, and how many there were before it; a title's doesn't count."""
    kept = Conversations(MIB)

    def session(body: bytes, *given: str, priority: Priority | None = None) -> tuple[str, str, int] | None:
        name, ident = given or ("", "")
        kept.keep(call("a", body, Client(name, session=ident, priority=priority)), 1.0)
        found = kept.find("a")
        assert found is not None
        known = found.session
        return None if known is None else (known.client, known.id, known.others)

    assert session(b"1") is None
    assert session(b"2", "codex", "s-1") == ("codex", "s-1", 0)
    assert session(b"title", "codex", "s-2", priority=Priority.LOW) == ("codex", "s-1", 0)
    assert held(kept, "a") == b"2"
    assert session(b"3") == ("codex", "s-1", 0)
    assert session(b"4", "codex", "s-1") == ("codex", "s-1", 0)
    assert session(b"5", "codex", "s-3") == ("codex", "s-3", 1)
    kept.forget("a")
    assert session(b"title", "codex", "s-2", priority=Priority.LOW) == ("codex", "s-2", 0)


def test_what_is_entered_together_counts_as_one_by_one() -> None:
    """Of a session's requests that came since somebody asked, only the last matters."""
    clients = [UNKNOWN, Client("codex", session="1"), Client("codex", session="2", priority=Priority.LOW)]
    calls = [call(agent, b"", client) for agent in ("a", "b") for client in clients]
    draw, together, singly = random.Random(1), Conversations(MIB), Conversations(MIB)
    for at in range(300):
        asked = replace(draw.choice(calls), body=b"%d" % at)
        together.keep(asked, float(at))
        singly.keep(asked, float(at))
        singly.find("")
        if not draw.randrange(20):
            assert [together.find(agent) for agent in "ab"] == [singly.find(agent) for agent in "ab"]


async def until_packed(conversations: Conversations, agent: str) -> Conversation:
    """Wait until an agent's body is compressed."""
    found = conversations.find(agent)
    assert found is not None
    await until(lambda: found.packed)
    return found


async def test_surplus_is_packed() -> None:
    """Bodies beyond a bound are compressed, of the least recently active agents first; they can be had again."""
    kept = Conversations(MIB, plain=250)
    for agent in ("a", "b", "c", "d"):
        kept.keep(call(agent, agent.encode() * 100), 1.0)
    before = kept.find("a")
    assert before is not None
    shown = before.fingerprint()
    for agent in ("a", "b"):
        found = await until_packed(kept, agent)
        assert (found.call.body, found.whole_call().body, found.size) == (b"", agent.encode() * 100, 100)
    assert before.fingerprint() == shown
    assert [held(kept, agent) for agent in "cd"] == [b"c" * 100, b"d" * 100]


async def test_the_newest_takes_the_place_of_what_is_packed() -> None:
    """An agent that goes on has its new body, also where the one before is being packed."""
    kept = Conversations(MIB, plain=150)
    for agent in ("a", "b", "a"):
        kept.keep(call(agent, agent.encode() * 100), 1.0)
    await until_packed(kept, "b")
    newest = kept.find("a")
    assert newest is not None
    assert (newest.call.body, newest.packed) == (b"a" * 100, b"")
    kept.forget("b")
    assert kept.find("b") is None


async def test_packed_bodies_are_bounded_too() -> None:
    """Where even compressed all are too much, those go whose agents were silent longest."""
    kept = Conversations(MIB, total=4_000, plain=1_000)
    agents = [f"a{number}" for number in range(20)]
    for agent in agents:
        kept.keep(call(agent, random.Random(agent).randbytes(600)), 1.0)
        kept.find(agent)
    while (first := kept.find("a10")) is not None and not first.left_out:  # noqa: ASYNC110 - a thread does it
        await asyncio.sleep(0.001)
    last = kept.find(agents[-1])
    assert last is not None
    assert last.call.body or last.packed
