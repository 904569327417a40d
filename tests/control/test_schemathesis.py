"""The control API against its own description, by schemathesis: what is as described is taken, what isn't is refused,
and every answer is one of those described."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from control.kit import RUN, TOKEN
from proxy.kit import client, playing, proxying
from proxy.wire import ANSWER, PLAIN_BODY
from upstream.scripted import serving

from hivemind.control.client import ControlClient
from hivemind.control.discovery import Token
from hivemind.scheduler.commands import SetBudget, SubmitTasks
from hivemind.scheduler.types import TaskSpec
from hivemind.store.checkpoints import folder_in
from hivemind.store.token_file import ControlKey

EXAMPLES = 20
"""For each endpoint, besides those at the limits of its schema. By hand, with thousands:
`schemathesis run URL/_control/openapi.json -H "Authorization: Bearer TOKEN" --checks all --max-examples 500`"""
HANGS_S = 300


@pytest.mark.slow
async def test_the_api_is_as_described(tmp_path: Path) -> None:
    """No check of schemathesis fails, of all that it has, on all endpoints: none of them ends the proxy, and files are
    written to this test's folder only."""
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
        tasks = (TaskSpec("lint", command=("true",)), TaskSpec("test", after=("lint",)))
        await control.command(SubmitTasks(tasks), "ops")
        program = await asyncio.create_subprocess_exec(
            Path(sys.executable).parent / "schemathesis",
            *("--no-color", "run", f"{running.url}/_control/openapi.json", "-H", f"Authorization: Bearer {TOKEN}"),
            *("--checks", "all", "--max-examples", str(EXAMPLES), "--generation-deterministic"),
            *("--continue-on-failure", "--warnings", "off"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,
        )
        said, _ = await program.communicate()
        assert program.returncode == 0, said.decode()
        assert "15 selected / 15 total" in said.decode()
