"""The control API of a real proxy, over a socket: every endpoint does what it says, and says what it did."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from control.kit import BEARER, RUN, TOKEN
from fleet.fleets import Watched, fleet
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import OpenAPIV31SpecValidator
from proxy.kit import Running, between, client
from proxy.wire import ANSWER, PLAIN_BODY

from hivemind import __version__
from hivemind.api_types import ClaimRequest, PlaceRelease, PlaceRequest
from hivemind.control import api
from hivemind.control.client import ControlClient
from hivemind.control.codec import encode_named
from hivemind.control.discovery import Token
from hivemind.control.openapi import description
from hivemind.control.parsing import COMMANDS
from hivemind.scheduler.commands import Rejected, SubmitTasks
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.store.checkpoints import Checkpoint, checkpoint_name, folder_in, write
from hivemind.store.token_file import ControlKey
from hivemind.world.fleet import Fleet

GRANTED = {"granted": True, "ahead": 0, "token": "", "run_token": "", "refused": ""}
DESCRIPTION = msgspec.json.decode(description())


@contextlib.asynccontextmanager
async def steered(**values: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Running]]:
    """A client that shows the token, and the proxy on whose control API it is."""
    async with between([ANSWER], **values) as (proxy, _), client() as web:
        proxy.proxy.control_key = ControlKey(RUN, TOKEN)
        web.base_url = httpx.URL(f"{proxy.url}/_control/")
        web.headers.update(BEARER)
        yield web, proxy


async def good(web: httpx.AsyncClient, method: str, path: str, **given: Any) -> Any:
    """The answer, which is a 200 and as it is described, as was what was asked."""
    answer = await web.request(method, path, **given)
    assert answer.status_code == 200, answer.text
    check(method, path, given.get("json"), answer.json())
    return answer.json()


def check(method: str, path: str, asked: Any, answered: Any) -> None:
    """Hold both to the description."""
    # A name in the path stands for one in braces.
    rows = (re.sub("{[a-z]+}", "[^/]+", each) for each in DESCRIPTION["paths"])
    found = next(
        each for each, row in zip(DESCRIPTION["paths"], rows, strict=True) if re.fullmatch(row, f"/_control/{path}")
    )
    described = DESCRIPTION["paths"][found][method.lower()]
    if asked is not None:
        holds(described["requestBody"], asked)
    holds(described["responses"]["200"], answered)


def holds(described: Any, value: Any) -> None:
    """The value is as its schema says."""
    schema = {**described["content"]["application/json"]["schema"], "components": DESCRIPTION["components"]}
    Draft202012Validator(schema).validate(value)


async def bad(web: httpx.AsyncClient, method: str, path: str, **given: Any) -> tuple[int, str]:
    """Status and line."""
    answer = await web.request(method, path, **given)
    assert list(answer.json()) == ["error", "bad_input"]
    return answer.status_code, answer.json()["error"]


def order(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "who": "ops"}


async def test_about() -> None:
    """The proxy tells who it is, and what its settings mean for whoever uses it."""
    async with steered(max_agents=3, mcp={"read_only": True}) as (web, proxy):
        about = await good(web, "GET", "about")
        assert (about["run"], about["version"], about["address"]) == (RUN, __version__, proxy.url)
        assert (about["agents_token"], about["max_agents"], about["read_only"]) == (False, 3, True)


async def test_a_proxy_without_a_fleet() -> None:
    """Its agents are all there are, and commands to anywhere are carried out here."""
    async with steered() as (web, proxy):
        fleet = await good(web, "GET", "fleet")
        assert (fleet["store"], fleet["members"], fleet["lanes"]) == ("", [], [])
        await web.post(f"{proxy.url}/agent/ann/v1/messages", content=PLAIN_BODY)
        agents = (await good(web, "GET", "fleet/agents"))["agents"]
        assert [(each["name"], each["machines"]) for each in agents] == [("ann", [])]
        await good(web, "POST", "fleet/commands", json=order("SetPriority", agent="ann", priority="low"))
        assert proxy.proxy.snapshot().agents[0].priority is Priority.LOW
        assert (await bad(web, "POST", "fleet/commands", json=order("StopAgent", agent="eve", stopped=True)))[0] == 409


async def test_a_proxy_in_a_fleet() -> None:
    """It tells of all proxies, as described."""
    async with steered() as (web, proxy):
        known = fleet(keys=2)
        proxy.proxy.watcher = Watched(known)  # type: ignore[assignment]
        assert msgspec.convert(await good(web, "GET", "fleet"), Fleet) == known


async def test_tasks() -> None:
    """Tasks are submitted, listed by batch with priorities by name, claimed best first, and end."""
    async with steered() as (web, _):
        tasks = [
            {"id": "n.lint", "batch": "n", "priority": "low", "command": ["make", "lint"]},
            {"id": "n.test", "batch": "n", "priority": "high", "after": ["n.lint"], "command": ["make", "test"]},
            {"id": "other"},
        ]
        done = await good(web, "POST", "commands", json=order("SubmitTasks", tasks=tasks))
        assert [task["priority"] for task in done["arguments"]["tasks"]] == ["low", "high", "normal"]
        listed = (await good(web, "GET", "tasks", params={"batch": "n"}))["tasks"]
        assert [(each["spec"]["id"], each["state"], each["priority"]) for each in listed] == [
            ("n.lint", "ready", "high"),
            ("n.test", "waiting", "high"),
        ]
        assert listed[0]["spec"]["priority"] == "low"
        assert len((await good(web, "GET", "tasks"))["tasks"]) == 3
        claim = await good(web, "POST", "tasks/claim", json={"runner": "r1", "batch": "n"})
        assert (claim["task"]["spec"]["id"], claim["task"]["runner"], claim["open"], claim["running"]) == (
            "n.lint",
            "r1",
            2,
            1,
        )
        nothing = await good(web, "POST", "tasks/claim", json={"runner": "r2", "batch": "n"})
        assert (nothing["task"], nothing["open"], nothing["running"]) == (None, 2, 1)
        await good(web, "POST", "commands", json=order("FinishTask", task="n.lint", ok=True))
        states = [each["state"] for each in (await good(web, "GET", "tasks", params={"batch": "n"}))["tasks"]]
        assert states == ["done", "ready"]


@pytest.mark.parametrize(
    ("tasks", "wanted", "line"),
    [
        ([{"id": "a", "after": ["b"]}, {"id": "b", "after": ["a"]}], 409, "a"),
        ([{"id": "a", "after": ["ghost"]}], 409, "ghost"),
        ([{"id": "a"}, {"id": "a"}], 409, "a"),
        ([{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d", "priority": "urgent"}], 422, "tasks[3]: priority must be"),
        ([{"id": "a", "prioritty": "low"}], 422, "tasks[0]: no such argument prioritty; did you mean priority?"),
        ([{"id": "a", "attempts": "2"}], 422, "tasks[0]: attempts must be a whole number"),
    ],
)
async def test_wrong_tasks(tasks: list[Any], wanted: int, line: str) -> None:
    """All or none: where one can't be, the line says which, and nothing is there."""
    async with steered() as (web, _):
        status, text = await bad(web, "POST", "commands", json=order("SubmitTasks", tasks=tasks))
        assert (status, line in text, "\n" in text) == (wanted, True, False)
        assert (await good(web, "GET", "tasks"))["tasks"] == []


async def test_many_tasks_at_once() -> None:
    """A graph is submitted whole, however long its commands make it."""
    async with steered() as (web, _):
        tasks = [{"id": f"t{n}", "after": [f"t{n - 1}"] if n else [], "command": ["x" * 1000]} for n in range(100)]
        await good(web, "POST", "commands", json=order("SubmitTasks", tasks=tasks))
        assert len((await good(web, "GET", "tasks"))["tasks"]) == 100


@pytest.mark.parametrize("path", ["tasks", "budgets"])
async def test_long_answers_leave_the_loop_alone(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be thousands of tasks or agents is written out in a thread."""
    threads = []

    def written(value: object) -> bytes:
        threads.append(threading.current_thread())
        return encode_named(value)

    monkeypatch.setattr(api, "encode_named", written)
    async with steered() as (web, _):
        await good(web, "GET", path)
    assert threads != []
    assert threading.main_thread() not in threads


async def test_places() -> None:
    """A place is given while there is one, then one queues; leaving tells what was used and lets the next one in."""
    async with steered(max_agents=1) as (web, proxy):
        ann = {"agent": "ann", "command": ["true"]}
        assert await good(web, "POST", "places", json=ann) | {"run_token": ""} == GRANTED
        bob = {"agent": "bob", "priority": "high"}
        assert (await good(web, "POST", "places", json=bob))["granted"] is False
        async with client() as agent:
            await agent.post(f"{proxy.url}/agent/ann/v1/messages", content=PLAIN_BODY)
        used = await good(web, "POST", "places/leave", json={"agent": "ann", "exit_code": 0})
        assert (used["tokens"] > 0, used["checkpoint"]) == (True, None)
        assert (await good(web, "POST", "places", json=bob))["granted"] is True
        assert await good(web, "POST", "places/leave", json={"agent": "nobody"}) == {
            "whole_at": None,
            "tokens": 0,
            "dollars": 0.0,
            "unpriced": 0,
            "checkpoint": None,
            "used_up": None,
            "stopped": False,
            "estimated": 0,
            "requests": None,
            "elsewhere": [],
        }


@pytest.mark.parametrize(
    ("path", "body", "wanted", "line"),
    [
        ("places", {"agent": ""}, 409, "agent"),
        ("places", {"agent": "a", "priority": 1}, 422, "the body: priority must be critical, high, normal or low"),
        ("places", {"agent": "a", "runing": True}, 422, "the body: no such argument runing; did you mean running?"),
        ("places", {"agent": "a", "who": "you"}, 409, "who: you is reserved for the proxy's own screen"),
        ("places/leave", {}, 422, "the body: agent is missing; it must be text"),
        ("places/leave", {"agent": "a", "exit_code": "0"}, 422, "the body: exit_code must be a whole number or null"),
        ("tasks/claim", {}, 422, "the body: runner is missing; it must be text"),
        ("tasks/claim", {"runner": "r", "who": ""}, 422, "who: must be 1 to 40 printable characters"),
        ("places/leave", {"agent": "a", "exit_code": 2**70}, 422, "exit_code: must be one that a process can end with"),
    ],
)
async def test_wrong_places_and_claims(path: str, body: Any, wanted: int, line: str) -> None:
    """One line says what is wrong and what would be right."""
    async with steered() as (web, _):
        status, text = await bad(web, "POST", path, json=body)
        assert (status, line in text) == (wanted, True), text


async def test_budgets() -> None:
    """Every agent is told with what it used, by run, day and ever, with its budget or without; the pool too."""
    async with steered() as (web, proxy):
        async with client() as agent:
            for name in ("ann", "bob"):
                await agent.post(f"{proxy.url}/agent/{name}/v1/messages", content=PLAIN_BODY)
        budget = {"agent": "ann", "tokens": 5000, "dollars": 2.5, "per": "day"}
        await good(web, "POST", "commands", json=order("SetBudget", **budget))
        await good(web, "POST", "commands", json=order("SetBudget", agent=None, tokens=10**6))
        told = await good(web, "GET", "budgets")
        ann, bob = told["agents"]
        assert (ann["agent"], ann["budget"]["tokens"], ann["budget"]["dollars"], ann["budget"]["per"]) == (
            "ann",
            5000,
            2.5,
            "day",
        )
        assert ann["run"]["tokens"] == ann["day"]["tokens"] == ann["ever"]["tokens"] == ann["budget"]["used_tokens"] > 0
        assert (bob["agent"], bob["budget"], bob["ever"]["tokens"]) == ("bob", None, ann["ever"]["tokens"])
        pool = told["pool"]
        assert (pool["agent"], pool["budget"]["covers"]) == (None, "all")
        assert pool["ever"]["tokens"] == 2 * bob["ever"]["tokens"]
        only = await good(web, "GET", "budgets", params={"agent": "bob"})
        assert [each["agent"] for each in only["agents"]] == ["bob"]
        why = "no agent named 'eve'; known: ann, bob"
        assert await bad(web, "GET", "budgets", params={"agent": "eve"}) == (409, why)


async def test_checkpoints(tmp_path: Path) -> None:
    """What is kept is listed, newest first, and shown whole by its name or its agent's."""
    names = []
    for n, agent in enumerate(("ann", "bob", "ann"), start=1):
        names.append(checkpoint_name(agent, 1000.0 + n))
        said = b'{"messages": [%d]}' % n
        kept = Checkpoint(names[-1], agent, "operator", "by ops", at=1000.0 + n, conversation_bytes=len(said))
        write(folder_in(tmp_path), kept, said)
    async with steered() as (web, proxy):
        proxy.proxy.checkpoints = folder_in(tmp_path)
        listed = await good(web, "GET", "checkpoints")
        assert [each["name"] for each in listed["checkpoints"]] == names[::-1]
        assert listed["unreadable"] == []
        mine = await good(web, "GET", "checkpoints", params={"agent": "bob"})
        assert [each["name"] for each in mine["checkpoints"]] == [names[1]]
        shown = await good(web, "GET", "checkpoints/ann")
        assert (shown["checkpoint"]["name"], shown["conversation"]) == (names[2], {"messages": [3]})
        assert (await good(web, "GET", f"checkpoints/{names[0]}"))["conversation"] == {"messages": [1]}
        assert await bad(web, "GET", "checkpoints/eve") == (404, "no checkpoint eve, and none of an agent of that name")


async def test_nothing_is_kept() -> None:
    """A proxy that keeps nothing has no checkpoints."""
    async with steered() as (web, _):
        assert await good(web, "GET", "checkpoints") == {"checkpoints": [], "unreadable": []}


async def test_the_client() -> None:
    """The client's types are what was sent: priorities by name on the wire, as themselves in the program."""
    async with steered() as (_, proxy), client() as http:
        control = ControlClient(proxy.url, Token(TOKEN, "the test"), http)
        spec = TaskSpec("a", Priority.LOW, command=("true",))
        done = await control.command(SubmitTasks((spec,)), "ops")
        assert done.arguments["tasks"][0]["priority"] == "low"
        (task,) = (await control.tasks()).tasks
        assert (task.spec, task.priority) == (spec, Priority.LOW)
        claim = await control.claim(ClaimRequest("runner-1"))
        assert claim.task is not None
        assert (claim.task.spec, claim.task.state) == (spec, "running")
        with pytest.raises(Rejected, match="task a is there already"):
            await control.command(SubmitTasks((spec,)), "ops")


async def test_what_workers_may_claim() -> None:
    """A worker gets no task of a plan, nor of a batch whose runner is there; tasks say whether a runner is there for
    them, and one that only says that it is there gets none."""
    async with steered() as (_, proxy), client() as http:
        control = ControlClient(proxy.url, Token(TOKEN, "the test"), http)
        plain = TaskSpec("plain", Priority.LOW, command=("true",))
        extra = TaskSpec("b.extra", batch="b", command=("true",))
        planned = TaskSpec("b.planned", Priority.HIGH, batch="b", command=("true",), planned=True)
        await control.command(SubmitTasks((plain, extra, planned, TaskSpec("by-hand"))), "ops")

        async def attended() -> list[str]:
            return [task.spec.id for task in (await control.tasks()).tasks if task.attended]

        assert await attended() == ["by-hand"]
        batch = PlaceRequest("b", running=True, group=True, runner="batch")
        await control.place(batch)
        assert await attended() == ["b.extra", "b.planned", "by-hand"]
        assert (await control.claim(ClaimRequest("w-1", worker="w", wants=False))).task is None
        assert await attended() == ["plain", "b.extra", "b.planned", "by-hand"]
        claimed = [(await control.claim(ClaimRequest(f"w-{number}", worker="w"))).task for number in range(2)]
        await control.leave(PlaceRelease("b", 0, "batch"))
        claimed += [(await control.claim(ClaimRequest(f"w-{number}", worker="w"))).task for number in range(2, 4)]
        assert [task and task.spec.id for task in claimed] == ["plain", None, "b.extra", None]
        assert [task.spec.id for task in (await control.tasks(running=True)).tasks] == ["plain", "b.extra"]
        assert "b.planned" not in await attended()


async def test_the_world_as_described() -> None:
    """The large answers are as described too, with agents, lanes without a limit, tasks and budgets in them."""
    async with steered() as (web, proxy):
        async with client() as agent:
            await agent.post(f"{proxy.url}/agent/ann/v1/messages", content=PLAIN_BODY)
        await good(web, "POST", "commands", json=order("SetBudget", agent="ann", tokens=5000))
        await good(web, "POST", "commands", json=order("SubmitTasks", tasks=[{"id": "a"}]))
        world = await good(web, "GET", "snapshot")
        snapshot = world["snapshot"]
        assert (snapshot["lanes"][0]["state"]["level"], len(snapshot["tasks"])) == (None, 1)
        (seen,) = (await good(web, "GET", "requests"))["changed"]
        assert (await good(web, "GET", f"requests/{seen['ticket']}"))["view"]["agent"] == "ann"
        drafted = {"values": {"aimd.beta": 0.7}}
        assert await bad(web, "POST", "settings/draft", json=drafted) == (
            409,
            "this proxy was started without a settings file to write to",
        )


@pytest.mark.slow
async def test_the_description() -> None:
    """It is OpenAPI 3.1, tells of every endpoint and command, and is for everybody: it needs no token."""
    async with steered(token="agents-only") as (web, proxy):
        answer = await web.get("openapi.json", headers={"authorization": ""})
        told = answer.json()
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert TOKEN not in answer.text
        assert proxy.url not in answer.text
    OpenAPIV31SpecValidator(told).validate()
    rows = {(method.upper(), path) for path, each in told["paths"].items() for method in each}
    own = {("GET", "/_control/openapi.json"), ("GET", "/_health")}
    assert rows - own == {(each.method, f"/_control{each.path}") for each in api.ENDPOINTS}
    orders = told["components"]["schemas"]["CommandRequest"]["oneOf"]
    assert [each["properties"]["name"]["const"] for each in orders] == list(COMMANDS)
    assert all(each["description"] for each in orders)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "SetPriority", "arguments": {"agent": "a", "priority": 1}},
        {"name": "SetPriority", "arguments": {"agent": "a"}},
        {"name": "SetPriority"},
        {"name": "Fly", "arguments": {}},
        {"name": "Drain", "arguments": {"draining": True, "now": True}},
        {"name": "SubmitTasks", "arguments": {"tasks": [{"id": "a", "afer": []}]}},
    ],
)
async def test_the_description_is_as_strict_as_the_proxy(wrong: dict[str, Any]) -> None:
    """What the proxy refuses isn't as described either."""
    with pytest.raises(ValidationError):
        holds(DESCRIPTION["paths"]["/_control/commands"]["post"]["requestBody"], wrong)
    async with steered() as (web, _):
        assert (await bad(web, "POST", "commands", json=wrong))[0] == 422


@pytest.mark.parametrize("endpoint", api.ENDPOINTS, ids=lambda each: f"{each.method}{each.path}")
async def test_without_the_token(endpoint: api.Endpoint) -> None:
    """Nobody gets anything without it."""
    async with steered() as (web, _):
        path = endpoint.path.lstrip("/").replace("{", "").replace("}", "")
        status, text = await bad(web, endpoint.method, path, headers={"authorization": "Bearer wrong"}, content=b"{}")
        assert (status, TOKEN in text) == (401, False)
