"""Real clients, as installed from npm and PyPI, as agents: who they are, what they use, and how they end.

`make test-clients` tries them; without one it is skipped. A mock provider plans what they do, and has its own tally.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents.running import Ran
from clients.kit import BESIDE, END, PRIVATE, SETTINGS, SHOWN, STARTS, Cells, Scene, said, scene, why_not
from clients.known import PROGRAMS, SDKS, Tried
from clients.table import ANEW

from benchmarks.planned.plan import Plan, Step
from hivemind.records import replace
from hivemind.scheduler.commands import SetCircuit

pytestmark = pytest.mark.clients
CellsOf = Callable[[Tried, str], Cells]
ENOUGH_FOR_ONE = "5000/ever"
"""A budget that a title or the like leaves unused, and the first step of the plan exceeds."""
MOST_REQUESTS = 2
"""Requests of a client after its budget is used up."""
REFUSED_S = 20.0


def started() -> list[Any]:
    """Each client in each way in which it can be started."""
    both = [(client, way) for client in PROGRAMS for way in STARTS if way != "npx" or client.by_npx]
    both += [(client, SETTINGS) for client in PROGRAMS if client.program == "claude"]
    both += [(client, PRIVATE) for client in (*PROGRAMS, *SDKS)]
    both += [(client, way) for client in SDKS for way in ("direct", "sh -c")]
    return [pytest.param(client, way, id=f"{client.name}-{way}") for client, way in both]


def programs(*, resume: bool) -> list[Any]:
    """Each program that can continue its session, or that can't, in each way."""
    both = [(client, way) for client in PROGRAMS for way in STARTS if way != "npx" or client.by_npx]
    return [pytest.param(client, way, id=f"{client.name}-{way}") for client, way in both if client.resumes is resume]


@pytest.mark.parametrize(("client", "way"), started())
async def test_what_it_uses(client: Tried, way: str, cells_of: CellsOf, tmp_path: Path) -> None:
    """All that it asks comes under its agent's name (and its sub-agents'), and is counted as the provider announced it:
    tokens to the token, dollars to the cent."""
    cells = cells_of(client, way)
    async with scene(client, tmp_path, way) as stage:
        ran, report = await stage.run(client, way)
        tally = await stage.tally()
        agents = {agent.name: agent for agent in stage.proxy.snapshot().agents if agent.requests}
    announced = [entry for entry in tally if entry["announced"]]
    tokens = sum(entry["input_tokens"] + entry["output_tokens"] for entry in announced)
    dollars = sum(entry["dollars"] for entry in announced)
    wrong = _identity(client, tally, set(agents)) or _ending(client, ran)
    cells.note("identity", f"{wrong}; {ran.err[-SHOWN:]}" if wrong else "")
    cells.note("tokens", "" if report.get("tokens") == tokens > 0 else f"{report.get('tokens')}, announced {tokens}")
    differs = abs((report.get("dollars") or 0.0) - dollars) >= 0.0001 or not dollars
    cells.note("dollars", f"{report.get('dollars')}, announced {dollars:.4f}" if differs else "")
    cells.check()


@pytest.mark.parametrize("client", [pytest.param(each, id=each.name) for each in PROGRAMS])
async def test_beside_another(client: Tried, cells_of: CellsOf, tmp_path: Path) -> None:
    """In a script with another client, and with one that can't be pointed: each request of both comes under the run's
    name, and the third one is told of."""
    other = PROGRAMS[(PROGRAMS.index(client) + 1) % len(PROGRAMS)]
    cells = cells_of(client, BESIDE)
    if why := why_not(other, ""):
        pytest.skip(why)
    async with scene(client, tmp_path, BESIDE) as stage:
        other.prepare(stage.home)
        (stage.place.folder / "amp").write_text("#!/bin/sh\n")
        (stage.place.folder / "amp").chmod(0o755)
        script = f"{shlex.join(client.command)} && rm -f made.txt && {shlex.join(other.command)} && amp"
        path = f"{stage.place.folder}:{stage.place.environ['PATH']}"
        stage.place.environ["PATH"] = path
        both = replace(client, program="sh", arguments=("-c", script), environ={**client.environ, **other.environ})
        ran, _ = await stage.run(both, "direct")
        tally = await stage.tally()
        agents = {agent.name: agent for agent in stage.proxy.snapshot().agents if agent.requests}
    wrong = "" if ran.code == 0 else f"exit code {ran.code}"
    wrong = wrong or ("" if "amp's requests go past HiveMind" in ran.err else "amp isn't told of")
    others = {name for name in agents if name != "ann" and not name.startswith("ann/")}
    seen = sum(agent.requests for agent in agents.values())
    wrong = wrong or ("" if seen >= len(tally) > 1 and not others else f"{len(tally)} at the provider, {agents}")
    ends = (ran.out + ran.err).count(END)
    wrong = wrong or ("" if ends >= 2 else f"{ends} of two answers")
    cells.note("beside", f"{wrong}: {said(ran)[-SHOWN:]}" if wrong else "")
    cells.check()


def _identity(client: Tried, tally: list[dict[str, Any]], agents: set[str]) -> str:
    others = {name for name in agents if name != "ann" and not name.startswith("ann/")}
    if others:
        return f"requests of {', '.join(sorted(others))}"
    if "ann" not in agents:
        return f"no request of its own, and {len(tally)} at the provider"
    tools = [entry["tool"] for entry in tally if entry["tool"]]
    if client.tools and not tools:
        return "no tool was called"
    if client.kind is not None and bool(agents - {"ann"}) is not client.tells:
        return f"agents are {', '.join(sorted(agents))} (tools: {', '.join(tools)})"
    return ""


def _ending(client: Tried, ran: Ran) -> str:
    if ran.code:
        return f"exit code {ran.code}: {said(ran)[-SHOWN:]}"
    return "" if END in ran.out or client.script else f"its output lacks the answer: {said(ran)[-SHOWN:]}"


@pytest.mark.parametrize("way", ["direct", "sh -c"])
@pytest.mark.parametrize("client", [pytest.param(each, id=each.name) for each in SDKS])
async def test_a_budget_that_is_used_up(client: Tried, way: str, cells_of: CellsOf, tmp_path: Path) -> None:
    """Ends it after two requests at most, and it shows the message."""
    cells = cells_of(client, way)
    async with scene(client, tmp_path) as stage:
        ran, _ = await stage.run(client, way, "--budget", "1/ever")
        cells.note("budget", _refused(stage, ran))
    cells.check()


def _refused(stage: Scene, ran: Ran) -> str:
    refused = stage.proxy.snapshot().totals.refused
    if not 1 <= refused <= MOST_REQUESTS:
        return f"{refused} requests were refused"
    return "" if "budget" in said(ran) else f"its output lacks the message: {said(ran)[-SHOWN:]}"


@pytest.mark.parametrize(("client", "way"), programs(resume=True))
async def test_resume(client: Tried, way: str, cells_of: CellsOf, tmp_path: Path) -> None:
    """After a budget that was used up, it continues its own session: no step of the plan is asked for twice."""
    cells = cells_of(client, way)
    async with scene(client, tmp_path) as stage:
        stage.mock.plan = Plan((Step(run="echo one > made.txt"), Step(say=END)))
        ended, _ = await stage.run(client, way, "--budget", ENOUGH_FOR_ONE)
        cells.note("budget", _refused(stage, ended))
        before = await stage.tally()
        await stage.hivemind(client, "budget", "ann", "none")
        ran = await stage.hivemind(client, "resume", "ann")
        cells.note("resume", _resumed(before, (await stage.tally())[len(before) :], ran))
    cells.check()


def _resumed(before: list[dict[str, Any]], after: list[dict[str, Any]], ran: Ran) -> str:
    steps = len([entry for entry in before if entry["tool"]])
    if steps != 1:
        return f"it was to be ended after one step, and took {steps}"
    if ran.code or END not in ran.out:
        return f"exit code {ran.code}: {(said(ran) + ran.err)[-SHOWN:]}"
    called = [entry["tool"] for entry in after if entry["tool"]]
    return f"asked again: {', '.join(called)}" if called else ""


@pytest.mark.parametrize("client", [pytest.param(each, id=each.name) for each in PROGRAMS if each.tools])
async def test_an_open_circuit(client: Tried, cells_of: CellsOf, tmp_path: Path) -> None:
    """Refused for 20 seconds in the middle of its session, with its default model, it goes on afterwards."""
    if client.program == "claude":  # others than its default model bear more
        at = client.arguments.index("--model")
        client = replace(client, arguments=client.arguments[:at] + client.arguments[at + 2 :])
    cells = cells_of(client, "direct")
    async with scene(client, tmp_path) as stage:
        stage.mock.plan = Plan((Step(run="sleep 3"), Step(say=END)))

        async def break_the_circuit() -> None:
            await stage.proxy.until(lambda world: world.totals.finished > 0)
            stage.proxy.proxy.apply(SetCircuit("open"))
            await asyncio.sleep(REFUSED_S)
            stage.proxy.proxy.apply(SetCircuit("auto"))

        breaking = asyncio.create_task(break_the_circuit())
        ran, _ = await stage.run(client, "direct")
        refused = stage.proxy.snapshot().totals.refused
        breaking.cancel()
    cells.note("circuit", _ending(client, ran) or ("" if refused else "it was never refused"))
    cells.check()


@pytest.mark.parametrize(("client", "way"), programs(resume=False))
async def test_starting_anew(client: Tried, way: str, cells_of: CellsOf, tmp_path: Path) -> None:
    """A client that can't continue its session is started anew, which is said with what was spent so far."""
    cells = cells_of(client, way)
    async with scene(client, tmp_path) as stage:
        await stage.spend("ann")  # one call of it is one request, so its budget has to be used up before
        ended, _ = await stage.run(client, way, "--budget", "1/ever")
        cells.note("budget", _refused(stage, ended))
        await stage.hivemind(client, "budget", "ann", "none")
        ran = await stage.hivemind(client, "resume", "ann")
    told = "anew" in ran.err and "tokens" in ran.err
    cells.note(ANEW, "" if told and not ran.code else f"exit code {ran.code}: {ran.err[-SHOWN:]}")
    cells.check()
