"""The process of an agent that `hivemind run` started: what its token is good for, and what its user lets it do."""

from __future__ import annotations

import sys
from pathlib import Path

from agents.running import TOKEN, before
from proxy.kit import client
from proxy.wire import PLAIN_BODY
from security.kit import AGENTS, endpoints

PRINTS = (sys.executable, "-c", "import os; print(os.environ['HIVEMIND_TOKEN'], os.environ['ANTHROPIC_BASE_URL'])")


async def test_its_token_is_its_own(tmp_path: Path) -> None:
    """Not that of all agents: with it the process is that agent, and no other, and steers nothing."""
    async with before(tmp_path, token=AGENTS) as (running, place), client() as web:
        ran = await place.ran("--name", "ann", "--", *PRINTS, HIVEMIND_TOKEN=AGENTS)
        token, base = ran.out.split()
        assert (token.startswith("run."), AGENTS in ran.out, TOKEN in ran.out) == (True, False, False)
        assert token in base
        shown = {"x-hivemind-token": token}
        for name, status in (("ann", 200), ("ann%2Fsub", 403), ("bob", 403)):
            answer = await web.post(f"{running.url}/agent/{name}/v1/messages", content=PLAIN_BODY, headers=shown)
            assert answer.status_code == status
        for method, path in endpoints():
            for headers in (shown, {"authorization": f"Bearer {token}"}):
                assert (await web.request(method, running.url + path, headers=headers)).status_code == 401


async def test_it_can_do_what_its_user_can(tmp_path: Path) -> None:
    """It finds the control token as the user's own programs do, and so lifts even its own budget."""
    async with before(tmp_path) as (_, place):
        ran = await place.ran("--name", "ann", "--budget", "5", "--", "hivemind", "budget", "ann", "none")
        assert (ran.code, "ann: no budget" in ran.out) == (0, True), ran
