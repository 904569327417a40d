"""The control API, and commands by name, as they come over the wire."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from control.kit import RUN, FakeProxy, asking, busy_proxy
from world.kit import arrived

from hivemind import __version__
from hivemind.control.codec import decode_snapshot, to_plain
from hivemind.control.parsing import COMMANDS, checked_who, command_from
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.events import Commanded
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.world.snapshot import REQUESTS_PAGE


def error_of(answer: httpx.Response) -> tuple[int, str]:
    """Every error is JSON with one line."""
    body = answer.json()
    assert list(body) == ["error", "bad_input"]
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, body["error"]


async def test_snapshot_whole_and_in_part() -> None:
    """The whole to whoever comes anew or from another run, else what is new since."""
    proxy = busy_proxy()
    async with asking(proxy) as web:

        async def curve(**query: Any) -> tuple[bool, list[float]]:
            part = decode_snapshot((await web.get("/_control/snapshot", params=query)).content)
            assert (part.run, part.version, part.snapshot.at) == (RUN, __version__, 10.0)
            return part.whole, [point.at for point in part.snapshot.lanes[0].curve]

        everything = (True, [5.0, 6.0, 7.0, 8.0, 9.0])  # a second without a sample was like the one before it
        assert await curve() == everything
        assert await curve(run="another", after=8.0) == everything
        assert await curve(after=8.0) == everything
        assert await curve(run=RUN, after=8.0) == (False, [8.0, 9.0])


async def test_requests() -> None:
    """What changed since a revision of this run; everything since one of another."""
    proxy = busy_proxy()
    async with asking(proxy) as web:
        first = (await web.get("/_control/requests")).json()
        assert (first["run"], first["oldest"], [view["ticket"] for view in first["changed"]]) == (RUN, 1, [1, 2])
        assert [view["state"] for view in first["changed"]] == ["answered", "waiting"]
        then = {"run": RUN, "since": first["revision"]}
        assert (await web.get("/_control/requests", params=then)).json()["changed"] == []
        proxy.happens(arrived(3, at=9.0))
        changed = (await web.get("/_control/requests", params=then)).json()["changed"]
        assert [view["ticket"] for view in changed] == [3]
        other = {"run": "another", "since": first["revision"]}
        assert len((await web.get("/_control/requests", params=other)).json()["changed"]) == 3


async def test_requests_come_in_pages() -> None:
    """Of very many, one answer has a page, and the next one goes on."""
    proxy = FakeProxy(*(arrived(number) for number in range(1, REQUESTS_PAGE + 3)))
    async with asking(proxy) as web:
        first = (await web.get("/_control/requests")).json()
        rest = (await web.get("/_control/requests", params={"run": RUN, "since": first["revision"]})).json()
        assert (len(first["changed"]), len(rest["changed"])) == (REQUESTS_PAGE, 2)


async def test_one_request() -> None:
    """All about one; a number that nobody knows is a 404."""
    async with asking(busy_proxy()) as web:
        detail = (await web.get("/_control/requests/1")).json()
        assert (detail["view"]["ticket"], detail["view"]["agent"]) == (1, "ann")
        assert detail["decisions"]
        missing = await web.get("/_control/requests/99")
        assert error_of(missing) == (404, "no request 99, or it is too old")


async def test_command() -> None:
    """It is carried out as ordered and answered in full, signed by whoever says so, or by `api`."""
    proxy = busy_proxy()
    async with asking(proxy) as web:
        order = {"name": "SetPriority", "arguments": {"agent": "ann", "priority": "high"}, "who": "ops"}
        assert (await web.post("/_control/commands", json=order)).json() == order
        done = await web.post("/_control/commands", json={"name": "BoostAgent", "arguments": {"agent": "ann"}})
        assert done.json() == {"name": "BoostAgent", "arguments": {"agent": "ann", "for_s": 60.0}, "who": "api"}
    assert proxy.applied == [(cmd.SetPriority("ann", Priority.HIGH), "ops"), (cmd.BoostAgent("ann", 60.0), "api")]


async def test_rejected_command() -> None:
    """What the proxy rejects is told in its own words, and what isn't a command never reaches it."""
    proxy = busy_proxy()
    async with asking(proxy) as web:
        wrong = await web.post("/_control/commands", json={"name": "Drian", "arguments": {"draining": True}})
        assert error_of(wrong) == (422, "no such command Drian; did you mean Drain?")
        unsigned = await web.post(
            "/_control/commands", json={"name": "Drain", "arguments": {"draining": True}, "who": ""}
        )
        assert error_of(unsigned) == (422, "who: must be 1 to 40 printable characters")
        proxy.reject = "no agent named 'bob'; known: ann"
        order = {"name": "PauseAgent", "arguments": {"agent": "bob", "paused": True}}
        assert error_of(await web.post("/_control/commands", json=order)) == (422, proxy.reject)
    assert proxy.applied == []


async def test_settings(tmp_path: Path) -> None:
    """A draft shows the file before and after; only then, and as it was drafted, is it written."""
    file = tmp_path / "hivemind.toml"
    file.write_text("# mine\n[aimd]\nbeta = 0.5\n")
    async with asking(busy_proxy(file)) as web:
        draft = (await web.post("/_control/settings/draft", json={"values": {"aimd.beta": 0.7}})).json()
        after = "# mine\n[aimd]\nbeta = 0.7\n"
        assert draft == {"path": str(file), "before": file.read_text(), "after": after}
        written = await web.post("/_control/settings/write", json={**draft, "who": "ops"})
        assert (written.status_code, written.json(), file.read_text()) == (200, {"path": str(file)}, after)


async def test_settings_that_changed_meanwhile(tmp_path: Path) -> None:
    """A file that somebody else changed since the draft stays as it is."""
    file = tmp_path / "hivemind.toml"
    async with asking(busy_proxy(file)) as web:
        draft = (await web.post("/_control/settings/draft", json={"values": {"rpm": 50}})).json()
        file.write_text("rpm = 10\n")
        status, text = error_of(await web.post("/_control/settings/write", json=draft))
        assert (status, file.read_text()) == (409, "rpm = 10\n")
        assert "has changed in the meantime" in text


async def test_only_drafts_are_written(tmp_path: Path) -> None:
    """The token turns knobs; it doesn't write any text into any file."""
    file = tmp_path / "hivemind.toml"
    async with asking(busy_proxy(file)) as web:
        draft = (await web.post("/_control/settings/draft", json={"values": {"rpm": 50}})).json()
        for forged in ({**draft, "path": str(tmp_path / "other")}, {**draft, "after": 'upstream = "http://evil"\n'}):
            status, text = error_of(await web.post("/_control/settings/write", json=forged))
            assert (status, "latest drafts" in text) == (409, True)
    assert os.listdir(tmp_path) == []


async def test_wrong_knob_and_no_file() -> None:
    """A knob that isn't one is told, and so is a proxy that has no file to write to."""
    async with asking(busy_proxy(Path("hivemind.toml"))) as web:
        wrong = await web.post("/_control/settings/draft", json={"values": {"aimd.betta": 1}})
        assert error_of(wrong) == (422, "aimd.betta: no such knob; did you mean aimd.beta?")
        text = await web.post("/_control/settings/draft", json={"values": {"rpm": "many"}})
        assert error_of(text) == (422, "the body: values must be an object whose values are each a number")
    async with asking(busy_proxy()) as web:
        without = await web.post("/_control/settings/draft", json={"values": {"rpm": 5}})
        assert error_of(without) == (409, "this proxy was started without a settings file to write to")


async def endless() -> AsyncIterator[bytes]:
    """More than any order needs."""
    for _ in range(70):
        yield b" " * 1024


async def test_bad_bodies() -> None:
    """Not JSON, not an object, nested without end, too large: each has its status and its line."""
    async with asking(busy_proxy()) as web:

        async def post(body: Any) -> tuple[int, str]:
            return error_of(await web.post("/_control/commands", content=body))

        assert await post(b"") == (400, "the body isn't JSON: Input data was truncated")
        assert [(await post(body))[0] for body in (b"{'name'}", b'"\xff"')] == [400, 400]
        assert await post(b"[]") == (422, "the body: must be an object")
        assert await post(b"{}") == (422, "the body: name is missing; it must be text")
        assert await post(json.dumps({"name": 5})) == (422, "the body: name 5 must be text")
        assert await post(b"[" * 60_000) == (400, "the body is nested too deeply")
        assert await post(b" " * (5 << 20)) == (413, "the body is larger than 4096 KiB")
        small = await web.post("/_control/tasks/claim", content=endless())
        assert error_of(small) == (413, "the body is larger than 64 KiB")


async def test_bad_queries() -> None:
    """A query that isn't understood is told rather than left out."""
    async with asking(busy_proxy()) as web:

        async def get(path: str) -> tuple[int, str]:
            return error_of(await web.get("/_control" + path))

        assert await get("/snapshot?after=noon") == (422, "/_control/snapshot: after must be a number")
        assert (await get("/snapshot?after=null"))[0] == 422
        assert await get("/snapshot?after=1&after=2") == (
            422,
            "/_control/snapshot: a parameter is given more than once",
        )
        assert await get("/snapshot?afetr=1") == (
            422,
            "/_control/snapshot: no such argument afetr; did you mean after?",
        )
        assert await get("/requests?since=-1") == (422, "since -1: must be 0 or more")


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/_control/nothing", 404, "there is no such page"),
        ("GET", "/_control/", 404, "there is no such page"),
        ("GET", "/_control", 404, "there is no such page"),
        ("GET", "/_control/requests/abc", 404, "there is no such page"),
        ("GET", f"/_control/requests/{'9' * 5000}", 404, "there is no such page"),
        ("GET", "/_control/requests/1/", 404, "there is no such page"),
        ("GET", "/_control/snapshot/", 404, "there is no such page"),
        ("GET", "/_control/commands", 405, "GET isn't allowed here, only POST"),
        ("POST", "/_control/snapshot", 405, "POST isn't allowed here, only GET or HEAD"),
    ],
)
async def test_wrong_turns(method: str, path: str, status: int, text: str) -> None:
    """What isn't there is a 404, what can't be done a 405 that says what can."""
    async with asking(busy_proxy()) as web:
        assert error_of(await web.request(method, path)) == (status, text)


async def test_small_on_the_wire() -> None:
    """Whoever takes zstd gets a world that is a fraction as long, everybody else plain JSON; nobody keeps it."""
    proxy = FakeProxy(*(arrived(number, f"agent-{number}") for number in range(1, 60)))
    async with asking(proxy) as web:
        plain = await web.get("/_control/snapshot", headers={"accept-encoding": "gzip"})
        small = await web.get("/_control/snapshot", headers={"accept-encoding": "gzip, zstd"})
        assert small.json() == plain.json()
        assert "content-encoding" not in plain.headers
        assert (small.headers["content-encoding"], small.headers["cache-control"]) == ("zstd", "no-store")
        assert int(small.headers["content-length"]) * 4 < int(plain.headers["content-length"])


ONE_OF_EACH: tuple[cmd.Command, ...] = (
    cmd.SetPriority("alice", Priority.HIGH),
    cmd.Tune("aimd.beta", 0.7),
    cmd.PinLevel(None),
    cmd.SetCircuit("probe", "up:1"),
    cmd.PauseAdmissions(True),
    cmd.PauseAgent("alice", False),
    cmd.BoostAgent("alice", 5.0),
    cmd.StopAgent("alice", True),
    cmd.CutRequest("alice", 12, retry=False),
    cmd.SetBudget("alice", 1000, 2.5, "day", "subtree"),
    cmd.BeginAgent("alice", "boss", "lint"),
    cmd.EndAgent("alice", -9),
    cmd.SubmitTasks((TaskSpec("lint"), TaskSpec("test", Priority.LOW, 500, ("lint",), command=("make", "test")))),
    cmd.ClaimTask("lint", "runner-1"),
    cmd.FinishTask("lint", ok=False, note="exit code 1"),
    cmd.CancelTask("lint"),
    cmd.RetryTask("lint"),
    cmd.SetTaskPriority("lint", Priority.CRITICAL),
    cmd.ForgetTasks("nightly"),
    cmd.Drain(False),
    cmd.ReleaseLane("up:1"),
    cmd.Acknowledge("alice", "died"),
    cmd.AddNote("new prompt"),
)


def test_every_command_has_a_name() -> None:
    """The list above leaves none out."""
    assert {type(command).__name__ for command in ONE_OF_EACH} == set(COMMANDS)


@pytest.mark.parametrize("command", ONE_OF_EACH, ids=lambda command: type(command).__name__)
def test_there_and_back(command: cmd.Command) -> None:
    """Each is the same at the other end."""
    arguments = msgspec.json.decode(msgspec.json.encode(to_plain(command)))
    assert command_from(type(command).__name__, arguments) == command


def test_as_in_the_event() -> None:
    """The name and arguments are those of the event that tells of it."""
    scheduler = Scheduler(SchedulerConfig(), lambda: 0.5)
    scheduler.apply(1.0, cmd.PauseAdmissions(True), "ops")
    (event,) = [event for event in scheduler.events if isinstance(event, Commanded)]
    assert command_from(event.name, event.arguments) == cmd.PauseAdmissions(True)


def test_what_has_a_default_may_be_left_out() -> None:
    """And a whole number is a number."""
    assert command_from("BoostAgent", {"agent": "alice"}) == cmd.BoostAgent("alice", 60.0)
    assert command_from("Tune", {"knob": "rpm", "value": 50}) == cmd.Tune("rpm", 50.0)


LONG = "x" * 41


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("SetPrioritty", {}, "no such command SetPrioritty; did you mean SetPriority?"),
        ("Fly", {}, f"no such command Fly; there are {', '.join(COMMANDS)}"),
        (LONG, {}, f"no such command of that name; there are {', '.join(COMMANDS)}"),
        ("Drain", [], "Drain: must be an object"),
        ("Drain", {}, "Drain: draining is missing; it must be true or false"),
        ("Drain", {"draining": 1}, "Drain: draining 1 must be true or false"),
        ("Drain", {"drainin": True}, "Drain: no such argument drainin; did you mean draining?"),
        ("Drain", {"x\n": True}, "Drain: no such argument of that name; there is draining"),
        ("Tune", {"zzz": 1}, "Tune: no such argument zzz; there are knob, value, upstream"),
        ("Tune", {"knob": "rpm", "value": "5"}, "Tune: value must be a number"),
        ("Tune", {"knob": "rpm", "value": True}, "Tune: value true must be a number"),
        ("SetBudget", {"agent": "a", "tokens": 0.5}, "SetBudget: tokens 0.5 must be a whole number or null"),
        ("PauseAgent", {"agent": None, "paused": True}, "PauseAgent: agent must be text"),
        (
            "SetPriority",
            {"agent": "a", "priority": "urgent"},
            "SetPriority: priority must be critical, high, normal or low",
        ),
        ("SetPriority", {"agent": "a", "priority": 0}, "SetPriority: priority must be critical, high, normal or low"),
        ("SetCircuit", {"mode": "shut"}, "SetCircuit: mode must be auto, open, closed or probe"),
        ("SubmitTasks", {"tasks": {}}, "SubmitTasks: tasks must be a list"),
        ("SubmitTasks", {"tasks": [{"id": "a"}, 5]}, "SubmitTasks: tasks[1]: must be an object"),
        ("SubmitTasks", {"tasks": [{"id": "a"}, {}]}, "SubmitTasks: tasks[1]: id is missing; it must be text"),
        (
            "SubmitTasks",
            {"tasks": [{"id": "a"}, {"id": "b", "priority": 1}]},
            "SubmitTasks: tasks[1]: priority must be critical, high, normal or low",
        ),
        (
            "SubmitTasks",
            {"tasks": [{"id": "a", "afer": ["b"]}]},
            "SubmitTasks: tasks[0]: no such argument afer; did you mean after?",
        ),
        ("SubmitTasks", {"tasks": [{"id": "a", "after": ["b", 3]}]}, "SubmitTasks: tasks[0]: after[1] 3 must be text"),
        ("SubmitTasks", {"tasks": [{"id": "a", "after": "b"}]}, "SubmitTasks: tasks[0]: after must be a list"),
    ],
)
def test_wrong(name: str, arguments: Any, line: str) -> None:
    """One line says what is wrong and what would be right; priorities go by name alone."""
    with pytest.raises(cmd.Rejected) as caught:
        command_from(name, arguments)
    assert str(caught.value) == line


@pytest.mark.parametrize("who", ["", "  ", "x" * 41, "a\nb", "you", "sk-ant-api03-abcdefgh"])
def test_who_is_refused(who: str) -> None:
    """Who signs is shown in the log: short, printable, no key, and not whoever sits at the proxy's own screen."""
    with pytest.raises(cmd.Rejected, match=r"^who: "):
        checked_who(who)


def test_who() -> None:
    """Any other name will do."""
    assert checked_who(" ann@desk ") == "ann@desk"
