"""The control API against its own description, by schemathesis: what is as described is taken, what isn't is refused,
and every answer is one of those described."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from control.kit import RUN, TOKEN
from proxy.kit import client, playing, proxying
from proxy.wire import ANSWER, PLAIN_BODY
from upstream.scripted import serving

from hivemind.api_types import PREFIX
from hivemind.control.api import ENDPOINTS
from hivemind.control.client import ControlClient
from hivemind.control.discovery import Token
from hivemind.control.parsing import COMMANDS
from hivemind.scheduler.commands import ClaimTask, FinishTask, SetBudget, StopAgent, SubmitTasks
from hivemind.scheduler.types import TaskSpec
from hivemind.store.checkpoints import folder_in
from hivemind.store.token_file import ControlKey

EXAMPLES = 12
"""For each endpoint, besides those at the limits of its schema. By hand, with thousands:
`schemathesis run URL/_control/openapi.json -H "Authorization: Bearer TOKEN" --checks all --max-examples 500`"""
HANGS_S = 300


@pytest.mark.slow
async def test_the_api_is_as_described(tmp_path: Path) -> None:
    """No check of schemathesis fails, of all that it has, on all endpoints: none of them ends the proxy, and files are
    written to this test's folder only. Each endpoint and each command was carried out, and refused, at least once."""
    async with (
        serving(playing([ANSWER])) as upstream,
        proxying(f"lab={upstream.url}", keep_in=folder_in(tmp_path), hangs_s=HANGS_S) as running,
        client() as http,
    ):
        running.proxy.control_key = ControlKey(RUN, TOKEN)
        running.proxy.settings_file = tmp_path / "hivemind.toml"
        control = ControlClient(running.url, Token(TOKEN, "the test"), http)
        for name in ("ann", "bob"):
            await http.post(f"{running.url}/agent/{name}/v1/messages", content=PLAIN_BODY)
        await control.command(SetBudget("ann", tokens=5000), "ops")
        tasks = [f"{state}-{number}" for number in range(25) for state in ("ready", "running", "failed", "waiting")]
        specs = (TaskSpec(name, after=("ready-24",) if name.startswith("waiting") else ()) for name in tasks)
        batches = [f"batch-{number}" for number in range(9)]
        done = (TaskSpec(f"{batch}.t", batch=batch) for batch in batches)
        await control.command(SubmitTasks((*specs, *done)), "ops")
        for name in tasks:
            if name.startswith(("running", "failed")):
                await control.command(ClaimTask(name), "ops")
            if name.startswith("failed"):
                await control.command(FinishTask(name, False), "ops")
        await control.command(StopAgent("ann", True), "ops")
        assert running.proxy._checkpointer is not None
        await running.proxy._checkpointer.written("ann")
        known = {"task": tasks, "batch": batches, "ticket": ["1", "2"], "agent": ["ann", "bob"], "name": ["ann"]}
        known["lane"] = [running.proxy.snapshot().lanes[0].state.lane]
        program = await asyncio.create_subprocess_exec(
            Path(sys.executable).parent / "schemathesis",
            *("--no-color", "run", f"{running.url}/_control/openapi.json", "-H", f"Authorization: Bearer {TOKEN}"),
            *("--checks", "all", "--max-examples", str(EXAMPLES), "--generation-deterministic"),
            *("--continue-on-failure", "--warnings", "off", "--report", "har", "--report-har-path", "sent.har"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,
            env={
                **os.environ,
                "SCHEMATHESIS_HOOKS": "control.known_names",
                "PYTHONPATH": str(Path(__file__).parents[1]),
                "KNOWN_NAMES": json.dumps(known),
            },
        )
        said, _ = await program.communicate()
        assert program.returncode == 0, said.decode()
        count = len(ENDPOINTS) + 1  # and `/_health`
        assert f"{count} selected / {count} total" in said.decode()
    seen = statuses((tmp_path / "sent.har").read_bytes())
    # What may be written is a draft of the proxy's, which no description tells, and cut a request in flight, of which
    # there is none; `test_api.py` writes one, `proxy/test_cut.py` cuts some.
    unable = {"/settings/write", "CutRequest"}
    assert [name for name, found in seen.items() if 200 not in found and name not in unable] == []
    refused = {400, 404, 409, 422}
    asked_nothing = {"/about", "/fleet", "/fleet/agents"}
    assert [name for name, found in seen.items() if name not in asked_nothing and not refused & set(found)] == []


def statuses(recorded: bytes) -> dict[str, list[int]]:
    """Return the statuses of all answers, by endpoint, and by command where one was named."""
    found: dict[str, list[int]] = {name: [] for name in (*(each.path for each in ENDPOINTS), *COMMANDS)}
    for entry in json.loads(recorded)["log"]["entries"]:
        request, status = entry["request"], entry["response"]["status"]
        path = urlsplit(request["url"]).path.removeprefix(PREFIX)
        for each in ENDPOINTS:
            if request["method"] == each.method and _is_at(path, each.path):
                found[each.path].append(status)
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            name = json.loads(request["postData"]["text"])["name"]
            if path == "/commands" and name in COMMANDS:
                found[name].append(status)
    return found


def _is_at(path: str, template: str) -> bool:
    pattern = re.sub(r"\\{[a-z]+\\}", "[^/]+", re.escape(template))
    return re.fullmatch(pattern, path) is not None
