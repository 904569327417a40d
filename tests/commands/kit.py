"""The command line, asking a proxy that the test serves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from control.kit import RUN, TOKEN
from program import Ended, called
from proxy.kit import Running, between, client
from proxy.wire import ANSWER, PLAIN_BODY

from hivemind.store.token_file import ControlKey

_PLAIN = {key: value for key, value in os.environ.items() if not key.startswith("HIVEMIND") and key != "NO_COLOR"}


async def run(folder: Path, *args: str, **environ: str) -> Ended:
    """Run `hivemind` with these arguments in that folder, in a thread, so that the loop serves the proxy meanwhile."""
    return await asyncio.to_thread(called, folder, args, environment(folder, environ))


async def started(folder: Path, *args: str, **environ: str) -> Ended:
    """Run the same as a process of its own, which commands that handle signals need."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("hivemind"),
        *args,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=environment(folder, environ),
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


def environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """That of somebody at a shell in this folder, and these variables."""
    return {**_PLAIN, "COLUMNS": "80", "USER": "ops", "HIVEMIND_STATE_DIR": str(folder / "state"), **environ}


class Desk:
    """Somebody at a shell, before a proxy that is served."""

    def __init__(self, proxy: Running, folder: Path) -> None:
        self.proxy = proxy
        self._folder = folder

    async def run(self, line: str, *more: str, **environ: str) -> Ended:
        """The words of a line, and arguments that hold blanks."""
        given = {"HIVEMIND_URL": self.proxy.url, "HIVEMIND_CONTROL_TOKEN": TOKEN, **environ}
        return await run(self._folder, *line.split(), *more, **given)

    async def does(self, line: str, *more: str, **environ: str) -> str:
        """The same, which goes well; gives what it said."""
        ended = await self.run(line, *more, **environ)
        assert (ended.code, ended.err) == (0, "")
        return ended.out


@contextlib.asynccontextmanager
async def desk(folder: Path) -> AsyncIterator[Desk]:
    """A proxy of which ann asked twice and bob once, and somebody to steer it."""
    async with between([ANSWER], rpm=50, tpm=0, max_concurrency=4) as (proxy, _), client() as web:
        proxy.proxy.control_key = ControlKey(RUN, TOKEN)
        for name in ("ann", "ann", "bob"):
            answer = await web.post(f"{proxy.url}/agent/{name}/v1/messages", content=PLAIN_BODY)
            assert answer.status_code == 200
        yield Desk(proxy, folder)
