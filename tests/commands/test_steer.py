"""`hivemind tasks WORD`, `set`, `pause`, `stop`, `budget`: each is carried out, signed, and said in a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands.kit import Desk, desk, run
from control.processes import program
from trusted import trusted_settings

from hivemind.api_types import NOBODY
from hivemind.scheduler.commands import BeginAgent, ClaimTask, Drain, EndAgent, FinishTask
from hivemind.scheduler.types import Priority

Golden = Callable[[str, str], None]


def agent(at: Desk, name: str) -> tuple[Priority, bool, bool]:
    """Its priority, whether it is held, whether it is stopped."""
    (found,) = (each for each in at.proxy.snapshot().agents if each.name == name)
    return found.priority, found.held, found.stopped


async def test_agents_are_steered(tmp_path: Path) -> None:
    """Priority, pause and stop, and back again; the log says who it was."""
    async with desk(tmp_path) as at:
        assert await at.does("set priority ann high") == "ann has priority high\n"
        assert await at.does("hold ann") == "ann's requests wait; streams in flight go on\n"
        assert await at.does("stop bob", HIVEMIND_AGENT="boss") == "bob is stopped\n"
        assert (agent(at, "ann"), agent(at, "bob")) == ((Priority.HIGH, True, False), (Priority.NORMAL, False, True))
        assert await at.does("release ann") == "ann's requests go on\n"
        assert await at.does("release bob") == "bob's requests go on\n"
        assert (agent(at, "ann"), agent(at, "bob")) == ((Priority.HIGH, False, False), (Priority.NORMAL, False, False))
        said = [line.text for line in at.proxy.snapshot().lines]
        assert any(", by ops@" in text for text in said)
        assert any(text.endswith(", by agent boss") for text in said)


async def test_everybody_is_held(tmp_path: Path) -> None:
    """Without a name it is all of them."""
    async with desk(tmp_path) as at:
        assert await at.does("pause") == "all requests wait; streams in flight go on\n"
        assert at.proxy.snapshot().mode == "paused"
        done = json.loads(await at.does("resume --json"))
        assert (done["name"], done["arguments"], at.proxy.snapshot().mode) == (
            "PauseAdmissions",
            {"paused": False},
            "serving",
        )


async def test_a_drain_is_ended(tmp_path: Path) -> None:
    """As status advises."""
    async with desk(tmp_path) as at:
        at.proxy.proxy.apply(Drain(True), "test")
        assert (await at.does("status")).splitlines()[1] == "  hivemind resume"
        assert await at.does("resume") == "requests are accepted again\n"
        assert at.proxy.snapshot().mode == "serving"
        at.proxy.proxy.apply(Drain(True), "test")
        assert json.loads(await at.does("resume --json"))["state"] == {"mode": "serving"}


async def test_circuits(tmp_path: Path) -> None:
    """What status advises undoes a circuit that is forced open; another mode is refused."""
    async with desk(tmp_path) as at:
        assert await at.does("circuit open") == "every circuit is forced open: nothing is sent\n"
        assert at.proxy.snapshot().verdict.state == "blocked"
        advice = (await at.does("status")).splitlines()[1].strip().removeprefix("hivemind ")
        lane = at.proxy.snapshot().lanes[0].state.lane
        assert await at.does(advice) == f"the circuit of {lane} is automatic\n"
        assert at.proxy.snapshot().verdict.state == "healthy"
        done = json.loads(await at.does(f"circuit closed {lane} --json"))
        assert done["state"] == {lane: {"circuit": "closed", "forced": True}}
        odd = await at.run("circuit shut")
        assert (odd.code, "auto" in odd.err) == (2, True)


async def test_knobs(tmp_path: Path, golden: Golden) -> None:
    """A knob is turned at once; without words all are shown, with their ranges."""
    async with desk(tmp_path) as at:
        assert await at.does("set aimd.beta 0.7") == "aimd.beta is 0.7\n"
        assert await at.does("set rpm none --upstream lab") == "rpm is no limit for lab\n"
        assert await at.does("set tpm 1.5m --upstream lab") == "tpm is 1,500,000 for lab\n"
        assert await at.does("set tpm none") == "tpm is no limit\n"
        knobs = at.proxy.snapshot().lanes[0].state.knobs
        assert (knobs["aimd.beta"], knobs["rpm"]) == (0.7, 0)
        golden("knobs", await at.does("set"))
        assert json.loads(await at.does("set --json"))["lab"]["aimd.beta"] == 0.7


async def test_tasks_are_steered(tmp_path: Path) -> None:
    """From submitting to the end, with another program's flags left alone."""
    async with desk(tmp_path) as at:
        alone = await at.run("tasks submit lint --batch n --tokens 5k --priority high -- make --max_x=1 lint")
        assert (alone.code, alone.err) == (0, f"hivemind: n.lint: {NOBODY}\n")
        assert await at.does("tasks submit n.test --batch n --after lint --on-failure skip --attempts 3")
        assert await at.does("tasks submit talk --agent ann") == "task talk is there\n"
        lint, test, talk = (task.spec for task in at.proxy.proxy.processes.tasks(None))
        assert (lint.id, lint.estimated_tokens, lint.command) == ("n.lint", 5000, ("make", "--max_x=1", "lint"))
        assert (test.id, test.after, test.on_failure, test.attempts) == ("n.test", ("n.lint",), "skip", 3)
        assert (talk.agent, talk.batch, talk.command) == ("ann", "", ())
        assert await at.does("tasks cancel n.lint") == "task n.lint is cancelled\n"
        assert await at.does("tasks retry n.lint") == "task n.lint will be tried again\n"
        assert await at.does("tasks fail talk", "--note", "no idea") == "task talk failed\n"
        assert await at.does("tasks retry talk")
        assert await at.does("tasks done talk") == "task talk is done\n"
        for task in ("a", "b"):
            await at.run(f"tasks submit {task} -- make")
        at.proxy.proxy.apply(ClaimTask("a", "r"), "test")
        at.proxy.proxy.apply(FinishTask("a", False, "used up", again=True, paused_s=1e9, others=("b",)), "test")
        shown = [line.split() for line in (await at.does("tasks")).splitlines() if line.startswith(("a ", "b "))]
        assert [line[1] for line in shown] == ["paused", "paused"]
        assert all(line[-5] == "until" and line[-2:] == ["used", "up"] for line in shown)
        status = await at.does("status")
        assert "2 paused" in status
        assert "(the paused until " in status
        assert await at.does("tasks retry a") == "task a will be tried again\n"
        paused = {each["spec"]["id"]: each["paused_s"] > 0 for each in json.loads(await at.does("tasks --json"))}
        assert {name for name, held in paused.items() if held} == {"b"}
        states = [(task.spec.id, task.state, task.note) for task in at.proxy.proxy.processes.tasks(None)]
        assert states[2][:2] == ("talk", "done")


async def test_budgets(tmp_path: Path, golden: Golden) -> None:
    """Set, raised, shown, taken away; of an agent or of all."""
    async with desk(tmp_path) as at:
        assert (await at.does("budget ann 200k --per day")).startswith("ann: 200,000 tokens a day; ")
        assert (await at.does("budget ann +50k")).startswith("ann: 250,000 tokens a day; ")
        assert (await at.does("budget bob $5/ever --covers subtree")).startswith(
            "bob: $5.00 in all with all that it starts;"
        )
        assert (await at.does("budget --pool 1k")).startswith("(all agents): 1,000 tokens a run; ")
        assert (await at.does("budget pool 2k")).startswith("(all agents): 2,000 tokens a run; ")
        assert (await at.does("budget pool")).startswith("(all agents): 2,000 tokens a run; ")
        assert (await at.does("budget pool 1k")).startswith("(all agents): 1,000 tokens a run; ")
        golden("budgets", await at.does("budget"))
        golden("budget_of_one", await at.does("budget ann"))
        assert json.loads(await at.does("budget ann --json"))["budget"]["tokens"] == 250_000
        assert json.loads(await at.does("budget --pool --json"))["budget"]["covers"] == "all"
        assert [each["agent"] for each in json.loads(await at.does("budget --json"))["agents"]] == ["ann", "bob"]
        assert (await at.does("budget ann none")).startswith("ann: no budget")


async def test_the_new_state_as_json(tmp_path: Path) -> None:
    """What is changed is printed as it is afterwards, beside the command and who gave it."""
    async with desk(tmp_path) as at:

        async def after(line: str) -> Any:
            done = json.loads(await at.does(f"{line} --json"))
            assert (set(done) - {"before"}, done["who"][:4]) == ({"name", "arguments", "who", "state"}, "ops@")
            return done["state"]

        assert await after("pause") == {"mode": "paused"}
        assert await after("resume") == {"mode": "serving"}
        for line, paused in {"hold ann": True, "release ann": False}.items():
            assert (await after(line))["held"] is paused, line
        held = await after("hold ann")
        assert (held["name"], held["held"], held["stopped"], held["requests"]) == ("ann", True, False, 2)
        assert " held " in await at.does("agents --state held")
        assert await at.does("release ann") == "ann's requests go on\n"
        assert await at.does("hold ann") == "ann's requests wait; streams in flight go on\n"
        assert (await after("stop ann"))["stopped"] is True
        assert (await after("release ann"))["stopped"] is False
        assert (await after("set priority bob low"))["priority"] == "low"
        budget = await after("budget ann 5k --per day")
        assert (budget["agent"], budget["budget"]["tokens"], budget["budget"]["per"]) == ("ann", 5_000, "day")
        assert (await after("budget ann none"))["budget"] is None
        assert (await after("budget --pool 1k"))["budget"]["tokens"] == 1_000
        assert await after("set aimd.beta 0.7") == {"lab": 0.7}
        turned = json.loads(await at.does("set aimd.beta 0.6 --upstream lab --json"))
        assert (turned["before"], turned["state"]) == ({"lab": 0.7}, {"lab": 0.6})
        added = await after("tasks submit talk --agent ann")
        assert (added["spec"]["id"], added["state"]) == ("talk", "ready")
        assert (await after("tasks cancel talk"))["state"] == "cancelled"
        assert (await after("tasks retry talk"))["state"] == "ready"
        assert (await after("tasks done talk"))["state"] == "done"


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("set aimd.bta 1", 2, "aimd.bta: no such knob; did you mean aimd.beta?"),
        ("set aimd.beta 7", 2, "aimd.beta 7: must be a number from 0.05 to 0.99"),
        ("set aimd.beta none", 2, "aimd.beta: 'none' is no number; it is as in 8, 0.7, 1_000_000, 500k or 1.5m"),
        ("set rpm 1.5", 2, "rpm 1.5: must be a whole number from 1 to 1,000,000, or 0 for no limit"),
        ("set rpm nan", 2, "rpm: 'nan' is no number; it is as in 8, 0.7, 1_000_000, 500k or 1.5m"),
        ("set aimd.beta", 2, "say one value, as in hivemind set aimd.beta 1"),
        ("set priority ann", 2, "say who and which, as in hivemind set priority alice high"),
        ("set priority ann urgent", 2, "priority urgent: must be critical, high, normal or low"),
        ("stop", 2, "the following arguments are required: AGENT"),
        ("tasks submit", 2, "the following arguments are required: NAME"),
        ("tasks submit a --tokens $5", 2, "--tokens $5: must be a number of tokens, as in 50k"),
        ("tasks submit a --attempts x", 2, "--attempts: invalid int value: 'x'"),
        (
            "budget ann lots",
            2,
            "'lots' is no budget; it is 200k, $5, $5/day, 200k,$5 or none, per run, day, month or ever",
        ),
        (
            "budget ann 0",
            2,
            "a budget is from 1 to 1,000,000,000,000,000 tokens; type none for no budget; in a shell"
            " write 5usd, or quote '$5'",
        ),
        ("budget ann 5k/day --per run", 2, "5k/day says day, and --per says run; say one of them"),
        ("budget ann +5k", 2, "ann has no budget in tokens to add to; say how much in all"),
        ("budget --pool +$5", 2, "the pool has no budget in dollars to add to; say how much in all"),
        ("budget ann --per day", 2, "say how much, as in hivemind budget alice 200k --per day"),
        ("budget --pool 5k --covers subtree", 2, "--covers is for an agent's budget; the pool covers all"),
        ("budget pool 5k --covers subtree", 2, "--covers is for an agent's budget; the pool covers all"),
        ("budget --pool ann 5k", 2, "say whose budget and how much, as in hivemind budget alice 200k, or --pool 2M"),
        ("budget --covrs agent", 2, "--covrs: no such flag; did you mean --covers?"),
    ],
)
async def test_wrong(tmp_path: Path, line: str, code: int, text: str) -> None:
    """One line says what is wrong and what would be right; the exit code is 2."""
    async with desk(tmp_path) as at:
        assert (await at.run(line)).both == (code, f"hivemind: {text}")


@pytest.mark.e2e
async def test_a_running_proxy_is_found(tmp_path: Path) -> None:
    """By its port, as the settings' file has it, and its note; and where none runs, that is said."""
    async with program(tmp_path) as serving:
        trusted_settings(tmp_path, f'port = {serving.port}\nstate_dir = "{tmp_path / "state"}"\n')
        ended = await run(tmp_path, "status", HIVEMIND_STATE_DIR="")
        assert (ended.code, ended.err) == (0, "")
        assert f"serving at {serving.url}" in ended.out
        assert (await run(tmp_path, "status", HIVEMIND_PORT="9")).code == 1
        await serving.ends()
    ended = await run(tmp_path, "status")
    assert (ended.code, "hivemind: no proxy of yours runs at" in ended.err) == (1, True)


@pytest.mark.parametrize(
    ("text", "environ", "line"),
    [
        ("port = 0\n", {}, "the port is set to 0, any free one; say where the proxy is with --attach"),
        ("port = [\n", {}, "not TOML: "),
        ("", {"HIVEMIND_CONFIG": "gone.toml"}, "can't be read (No such file or directory) (HIVEMIND_CONFIG)"),
        ("", {"HIVEMIND_CONFIG": "/dev/zero"}, "/dev/zero: can't be read (more than 1024 KiB) (HIVEMIND_CONFIG)"),
        ("", {"HIVEMIND_PORT": "x"}, "the port is set to x, which is none; say where the proxy is with --attach"),
    ],
)
async def test_settings_that_lead_nowhere(tmp_path: Path, text: str, environ: dict[str, str], line: str) -> None:
    """It is bad input, told in a line."""
    trusted_settings(tmp_path, text)
    ended = await run(tmp_path, "status", **{"HIVEMIND_STATE_DIR": "", **environ})
    assert (ended.code, line in ended.err, ended.err.count("\n")) == (2, True, 1), ended.err


_UNKNOWN = {
    "circuit auto nowhere": "no lane 'nowhere'; known: lab:all",
    "set tpm 2000 --upstream nowhere": "no upstream named 'nowhere'; known: lab",
    "set --upstream nowhere": "no upstream named 'nowhere'; known: lab",
    "set priority eve high": "no agent named 'eve'; known: ann, bob",
    "budget eve": "no agent named 'eve'; known: ann, bob",
    "hold eve": "no agent named 'eve'; known: ann, bob",
    "release eve": "no agent named 'eve'; known: ann, bob",
    "stop eve": "no agent named 'eve'; known: ann, bob",
    "resume eve": "eve: no agent and no checkpoint has that name; there are the agents ann, bob;"
    " there are no checkpoints",
    "agents eve": "no agent named 'eve'; known: ann, bob",
    "ack eve": "no alert about 'eve' waits to be acknowledged; known: none yet",
    "tasks done lint": "no task named 'lint'; known: none yet",
    "tasks cancel lint": "no task named 'lint'; known: none yet",
    "tasks submit test --after lint": "task test waits for 'lint', which isn't known; known: test",
}


async def test_a_name_that_nothing_has_is_bad_input(tmp_path: Path) -> None:
    """One line says what there is, and the exit code is 2, whichever command was given it."""
    async with desk(tmp_path) as at:
        for line, why in _UNKNOWN.items():
            ended = await at.run(line)
            assert (line, ended.code, ended.out, ended.err) == (line, 2, "", f"hivemind: {why}\n")


async def test_a_value_that_is_out_of_range_is_bad_input(tmp_path: Path) -> None:
    """Also where the proxy alone knows the range; what only comes too late is none."""
    async with desk(tmp_path) as at:
        for line in ("set aimd.floor 9", "note ", "tasks submit a/b", "tasks submit a --after a", "budget a\u200bb 5k"):
            ended = await at.run(*line.split(" ", 1) if line == "note " else (line,))
            assert (line, ended.code, ended.err.count("\n")) == (line, 2, 1), ended.err
        assert await at.does("tasks submit lint")
        assert await at.does("tasks cancel lint")
        late = await at.run("tasks cancel lint")
        assert (late.code, late.err) == (1, "hivemind: task lint is cancelled already\n")


async def test_alerts_are_acknowledged_and_notes_written(tmp_path: Path) -> None:
    """By agent, rule or all; without such an alert it is an error that says which there are."""
    async with desk(tmp_path) as at:
        at.proxy.proxy.apply(BeginAgent("dmitri"))
        at.proxy.proxy.apply(EndAgent("dmitri", 3))
        at.proxy.proxy.watch.check_alerts()
        wrong = await at.run("ack ann")
        assert wrong.code == 2
        assert "no alert about 'ann' waits to be acknowledged; known: dmitri" in wrong.err
        assert await at.does("ack dmitri --rule died") == "the alerts about dmitri (died) are acknowledged\n"
        assert at.proxy.snapshot().alerts[0].acknowledged.startswith("ops@")
        assert await at.does("note new", "prompt") == "noted\n"
        assert "note: new prompt, by ops@" in at.proxy.snapshot().lines[-1].text
