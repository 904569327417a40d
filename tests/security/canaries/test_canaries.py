"""Keys in every place where one can be put are nowhere but where docs/security.md says, and at the right upstream."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from agents.running import PLAIN
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from program import called
from security.canaries import places
from security.canaries.answers import Upstream
from security.canaries.client import requests
from security.canaries.keys import Keys, found
from trusted import trusted_settings
from tui.kit import TERMINAL, piloted, press, whole_screen

from hivemind.control.api import ENDPOINTS
from hivemind.errors import UsageError
from hivemind.settings.load import load
from hivemind.settings.options import options
from hivemind_tui.app import ControlRoom
from hivemind_tui.sources.remote import attached

pytestmark = [pytest.mark.slow, pytest.mark.e2e]
HANGS_S = 300
_BIN = Path(sys.executable).parent
_NO_LIMITS = (
    *("--features.backpressure", "false", "--features.rate-windows", "false", "--max-concurrency", "0"),
    *("--retry.max-attempts", "2", "--retry.base-s", "0.001", "--retry.max-s", "0.002"),
    *("--retry.budget-ratio", "100"),
)


@dataclass
class Stage:
    """A proxy as a program before two upstreams that answer with keys, and all that comes out of it."""

    folder: Path
    keys: Keys
    upstreams: tuple[Upstream, Upstream]
    flags: list[str] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)
    url: str = ""
    process: asyncio.subprocess.Process | None = None
    outputs: dict[str, bytes] = field(default_factory=dict)

    @property
    def token(self) -> str:
        return self.environ["HIVEMIND_CONTROL_TOKEN"]

    async def hivemind(self, *args: str, code: int | None = None) -> None:
        """Run a command of the operator's in this process."""
        environ = {**PLAIN, **self.environ, "HIVEMIND_URL": self.url, "HIVEMIND_STATE_DIR": str(self.folder / "state")}
        done = await asyncio.to_thread(called, self.folder, args, environ)
        assert done.code in ((0, 1) if code is None else (1, code)), done
        name = f"hivemind {' '.join(args[:2])}" if code is None else "refused command"
        self.outputs[f"{name}, output {len(self.outputs)}"] = (done.out + done.err).encode()

    def check(self) -> set[str]:
        """Look for keys in everything that came out. Return the rows of the table by which some may be there."""
        for path in self.folder.rglob("*"):
            assert not found(str(path.relative_to(self.folder)).encode(), self.keys)
            if path.is_file():
                self.outputs[f"file {path.relative_to(self.folder)}"] = path.read_bytes()
        finds = {(output, place) for output, data in self.outputs.items() for place in found(data, self.keys)}
        leaks = sorted(each for each in finds if not places.allowed(*each))
        assert not leaks, "\n".join(f"{output}: {place}" for output, place in leaks)
        return {row.where for each in finds if (row := places.allowed(*each))}


@contextlib.asynccontextmanager
async def staged(folder: Path, *flags: str) -> AsyncIterator[Stage]:
    """Start it, with secrets in its settings; at the end it is drained, and what it wrote is among the outputs."""
    keys = Keys()
    stage = Stage(folder, keys, (Upstream(keys, "upstream"), Upstream(keys, "other upstream")))
    async with asyncio.timeout(HANGS_S), contextlib.AsyncExitStack() as stack:
        servers = []
        for upstream in stage.upstreams:
            servers.append(await asyncio.start_server(upstream, "127.0.0.1", 0, limit=1 << 22))
            await stack.enter_async_context(servers[-1])
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        stage.environ = {"HIVEMIND_CONTROL_TOKEN": keys.unknown("settings: control token")}
        bound = keys.unknown("settings: token of an agent")
        (folder / "hivemind.toml").write_text(f'[agents.credentials]\nbob = "{bound}"\n')
        upstreams = [f"--upstream=a=http://127.0.0.1:{ports[0]}", f"--upstream=b=http://127.0.0.1:{ports[1]}"]
        stage.process = await asyncio.create_subprocess_exec(
            *(str(_BIN / "hivemind"), "proxy", "--config", "hivemind.toml", *upstreams, "--port", "0"),
            *("--state-dir", "state", "--log-level", "debug", *_NO_LIMITS, *flags),
            stdout=stack.enter_context((folder / "out.txt").open("wb")),
            stderr=stack.enter_context((folder / "err.txt").open("wb")),
            cwd=folder,
            env={**PLAIN, **stage.environ},
        )
        try:
            while not (ready := re.search(rb":(\d+) ->", (folder / "out.txt").read_bytes())):
                assert stage.process.returncode is None
                await asyncio.sleep(0.01)
            stage.url = f"http://127.0.0.1:{int(ready[1])}"
            yield stage
            stage.process.send_signal(signal.SIGTERM)
            assert await stage.process.wait() == 0
        finally:
            if stage.process.returncode is None:
                stage.process.kill()
                await stage.process.wait()


async def _send(stage: Stage) -> None:
    """Send every request. An answer that no upstream took part in is an output."""
    port = int(stage.url.rpartition(":")[2])
    for number, (place, raw) in enumerate(requests(stage.keys)):
        before = sum(len(upstream.requests) for upstream in stage.upstreams)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw.replace(b" /", b" /to/a/", 1))  # without a name nothing would be sent on a guess
        if place == "client: cut off":
            writer.write_eof()
        answer = await reader.read()
        writer.close()
        if sum(len(upstream.requests) for upstream in stage.upstreams) == before:
            stage.outputs[f"refusal {number}"] = answer


async def _look(stage: Stage, least: int = 200) -> None:
    """Everything that a proxy tells: each GET of the control API, figures, commands, tools."""
    headers = {"authorization": f"Bearer {stage.token}"}
    async with httpx.AsyncClient(trust_env=False, base_url=stage.url, headers=headers, timeout=60) as web:
        tickets = [str(view["ticket"]) for view in (await web.get("/_control/requests?since=0")).json()["changed"]]
        assert len(tickets) >= least
        kept = [each["name"] for each in (await web.get("/_control/checkpoints")).json()["checkpoints"]]
        targets = ["/_health", "/_stats", "/metrics", "/_control/openapi.json"]
        for each in ENDPOINTS:
            if each.method == "GET":
                found_there = {"{ticket}": tickets, "{name}": kept}
                mark = next((mark for mark in found_there if mark in each.path), "")
                targets += [f"/_control{each.path.replace(mark, name)}" for name in found_there.get(mark, [""])]
        for target in targets:
            answer = await web.get(target)
            assert answer.status_code == 200, target
            stage.outputs[f"GET {target}"] = answer.content
    for command in ("status", "agents", "tasks", "budget", "checkpoints"):
        await stage.hivemind(command)
        await stage.hivemind(command, "--json")


async def _stop(stage: Stage) -> None:
    """Stop every agent, so that its conversation is kept."""
    headers = {"authorization": f"Bearer {stage.token}"}
    async with httpx.AsyncClient(trust_env=False, base_url=stage.url, headers=headers, timeout=60) as web:
        agents = [each["name"] for each in (await web.get("/_stats")).json()["agents"]]
        for agent in agents:
            order = {"name": "StopAgent", "arguments": {"agent": agent, "stopped": True}, "who": "test"}
            assert (await web.post("/_control/commands", json=order)).status_code == 200
        while not (await web.get("/_control/checkpoints")).json()["checkpoints"]:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


async def _tools(stage: Stage) -> None:
    """What each tool answers, to a good call and to one that holds keys."""
    key = stage.keys.known("task: argument of a tool")
    calls: list[tuple[str, dict[str, Any]]] = [
        *((f"hm.{name}", {}) for name in ("status", "metrics", "batch", "budget", "config", "setup")),
        *(("hm.status", {"agent": key}), ("hm.budget", {"agent": key}), ("hm.config", {"knob": key, "value": 1})),
        *(("hm.setup", {"client": key}), ("hm.batch", {"batch": key}), ("hm.submit", {"task": key}), (key, {})),
        *(("hm.priority", {"agent": key, "priority": "low"}), ("hm.priority", {"agent": "x", "priority": key})),
        ("hm.status", {key: 1}),
    ]
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {stage.token}"}, trust_env=False, timeout=60) as web,
        Client(streamable_http_client(f"{stage.url}/agent/ann/mcp", http_client=web), mode="auto") as client,
    ):
        for number, (name, arguments) in enumerate(calls):
            try:
                said = repr(await client.call_tool(name, arguments))
            except Exception as error:
                said = repr(error)
            stage.outputs[f"tool {number}"] = said.encode()


async def _screens(stage: Stage) -> None:
    """Each page of an attached control room, as text and as a picture, and the closest look at some rows."""
    async with (
        attached(stage.url, {"HIVEMIND_CONTROL_TOKEN": stage.token}) as source,
        piloted(ControlRoom(source, environment=TERMINAL), (200, 60)) as pilot,
    ):
        for page in "1234560":
            for keys in (page, "enter", "down enter", "escape"):
                await press(pilot, keys)
                stage.outputs[f"screen {page}, {keys}"] = whole_screen(pilot).encode()
            stage.outputs[f"picture {page}"] = pilot.app.export_screenshot().encode()


async def _recorded(stage: Stage, *more: tuple[str, ...]) -> None:
    """What is made of the journal afterwards."""
    (journal,) = map(str, (stage.folder / "state" / "journals").glob("*.jsonl"))
    for args in (
        ("journal", "ls"),
        ("journal", "show", journal),
        ("journal", "show", journal, "--json"),
        ("journal", "stats", journal),
        ("journal", "export", journal, "--csv", "--out", "out.csv"),
        ("journal", "export", journal, "--har", "--out", "out.har"),
        ("report", journal, "--out", "report.html"),
        ("report", journal, "--markdown", "--out", "report.md"),
        *more,
    ):
        await stage.hivemind(*args)


@pytest.mark.parametrize("bodies", [False, True], ids=["without bodies", "with bodies"])
async def test_what_a_request_and_an_answer_hold(bodies: bool, tmp_path: Path) -> None:
    """Every place of a request, and of an answer, with a journal of heads and one of bodies."""
    async with staged(tmp_path, *(["--record-bodies"] if bodies else [])) as stage:
        await _send(stage)
        if bodies:
            await _stop(stage)
            await _look(stage)
            await _screens(stage)
        first, second = stage.upstreams
        assert len(first.requests) > 250
        assert second.requests == []
    await _recorded(stage, ("journal", "import", "out.har", "--bodies"))
    assert len(stage.check()) == 2


PLAN = """\
name: secret
env: {{PLAN_API_KEY: "{env}"}}
tasks:
  told:
    command: [sh, -c, "echo {command}; echo $PLAN_API_KEY; echo {complaint} >&2; exit 3", "{argument}"]
    env: {{OTHER: "{other}"}}
"""
WRONG_PLANS = (
    "name: {}\ntasks: {{}}",
    "tasks: {{a: {{command: 5, priority: {}}}}}",
    "tasks: {{a: {{command: [x], budget: {}}}}}",
    "tasks: {{a: {{command: [x], timeout: {}, cwd: {}}}}}",
    "tasks: {{{}: {{command: []}}}}",
    "tasks: {{a: {{command: [x], after: [{}]}}}}",
    "tasks: {{a: {{command: [x], {}: 1}}}}",
    "tasks: {{a: {{command: [x], env: {{'{}=': 1}}}}}}",
    "tasks: [{}",
)


async def test_what_a_task_holds(tmp_path: Path) -> None:
    """Commands, their output, variables and notes, of runs, batches and tasks that are submitted."""
    async with staged(tmp_path) as stage:
        known, unknown = stage.keys.known, stage.keys.unknown
        assert stage.process is not None
        shell = f"echo {known('task: output')}; echo $MY_API_KEY; cat /proc/self/environ > environ.txt;"
        shell += f" cat /proc/$PPID/cmdline /proc/{stage.process.pid}/cmdline /proc/self/cmdline > cmdline.txt; exit 3"
        environ = {**PLAIN, "HIVEMIND_URL": stage.url, "MY_API_KEY": unknown("task: variable")}
        environ["HIVEMIND_STATE_DIR"] = str(tmp_path / "state")
        argument = unknown("task: argument")
        plan = PLAN.format(
            env=unknown("task: variable"),
            other=unknown("task: variable"),
            command=known("task: argument"),
            complaint=known("task: output"),
            argument=unknown("task: argument"),
        )
        (tmp_path / "plan.yaml").write_text(plan)
        for name, args in {
            "hivemind run": ("run", "--name", "ann", "--", "sh", "-c", shell, argument),
            "hivemind batch": ("batch", "plan.yaml", "--json", "batch.json"),
        }.items():
            process = await asyncio.create_subprocess_exec(
                *(str(_BIN / "hivemind"), *args),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=tmp_path,
                env=environ,
            )
            out, err = await process.communicate()
            assert process.returncode == (3 if args[0] == "run" else 1), err
            stage.outputs[f"{name}, standard output"] = out
            stage.outputs[f"{name}, standard error"] = err
        command = ("sh", "-c", f"echo {known('task: argument')}", unknown("task: argument"))
        await stage.hivemind("tasks", "submit", "later", "--", *command)
        await stage.hivemind("tasks", "submit", "hand")
        await stage.hivemind("tasks", "fail", "hand", "--note", f"it was {known('task: note')}")
        await stage.hivemind("tasks", "cancel", known("task: name"), code=2)
        for text in WRONG_PLANS:
            (tmp_path / "plan.yaml").write_text(
                text.replace("{}", known("task: wrong plan")).replace("{{", "{").replace("}}", "}")
            )
            await stage.hivemind("batch", "plan.yaml", "--check", code=2)
        for args in (
            ("run", "--name", known("task: agent"), "--", "true"),
            ("run", "--budget", known("task: budget"), "--", "true"),
            ("run", "--priority", known("task: priority"), "--", "true"),
            ("budget", known("task: agent"), "5"),
            ("budget", "ann", known("task: budget")),
            ("stop", known("task: agent")),
            ("set", known("task: knob"), "5"),
            ("set", "rpm", known("task: value")),
            ("tasks", "submit", known("task: name")),
            ("tasks", "submit", "x", "--batch", known("task: name"), "--after", known("task: name")),
            ("checkpoints", "show", known("task: name")),
            ("resume", known("task: agent")),
            (known("task: command"),),
            ("status", f"--{known('task: flag')}"),
        ):
            await stage.hivemind(*args, code=2)
        (tmp_path / "plan.yaml").unlink()
        await _tools(stage)
        await _look(stage, least=0)
        for path in (tmp_path / "state").glob("control-*.json"):
            stage.outputs[f"running: {path.name}"] = path.read_bytes()
    await _recorded(stage)
    assert len(stage.check()) == 5


def test_what_settings_hold(tmp_path: Path) -> None:
    """Every setting, as a flag, a variable and in the file, with a key where it is wrong and where it is right."""
    keys, said = Keys(), {}
    for option in options():
        for way in ("flag", "variable", "file", "file as a list", "file as a table"):
            place = f"settings: {option.key} in a {way}"
            for make in (keys.known, *([keys.unknown] if option.secret else [])):
                key = make(place)
                text = _toml(
                    option.path, {"file": f'"{key}"', "file as a list": f'["{key}"]'}.get(way, f'{{"{key}" = 1}}')
                )
                trusted_settings(tmp_path, text if way.startswith("file") else "")
                argv = [option.flag, key] if way == "flag" else []
                environ = {option.variable: key} if way == "variable" else {}
                try:
                    said[place] = repr(load(argv, environ=environ, cwd=tmp_path))
                except (UsageError, SystemExit):
                    # It is wrong, so that no proxy starts: as a program, with what it says.
                    done = called(tmp_path, ("proxy", *argv), {**PLAIN, **environ})
                    assert done.code == 2, place
                    said[place] = done.out + done.err
    leaks = [(place, text) for place, text in said.items() if found(text.encode(), keys)]
    assert [each for each in leaks if not re.match(_SHOWN, each[0])] == []


_SHOWN = r"settings: (allowed-hosts|allowed_hosts|allowed-origins|host|state_dir|ca_file|upstream) "


def _toml(path: tuple[str, ...], value: str) -> str:
    head = f"[{'.'.join(path[:-1])}]\n" if path[:-1] else ""
    return f"{head}{path[-1]} = {value}\n"


WRONG_FILES = (
    *("{0} = 1", "[{0}]\na = 1", "a.{0} = 1", "token = {0}", "= {0}", "[{0}"),
    *("[agents.credentials]\n'{0}' = 5", "[agents.credentials]\na = '{0} x'", "[agents]\ncredentials = '{0}'"),
)


def test_what_wrong_files_hold(tmp_path: Path) -> None:
    """Settings that don't exist, and files that aren't TOML, with and without trust in them."""
    keys = Keys()
    for text in WRONG_FILES:
        text = text.format(keys.known("settings: wrong file"))
        (tmp_path / "hivemind.toml").write_text(text)
        untrusted = called(tmp_path, ("proxy",), PLAIN)
        trusted_settings(tmp_path, text)
        for done in (untrusted, called(tmp_path, ("proxy",), PLAIN)):
            assert done.code == 2
            assert not found((done.out + done.err).encode(), keys), done
    (tmp_path / "hivemind.toml").unlink()
    done = called(tmp_path, ("proxy",), {**PLAIN, "HIVEMIND_CONFIG": keys.known("settings: file")})
    assert (done.code, found(done.err.encode(), keys)) == (2, set())
