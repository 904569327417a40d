"""The command line, asking a proxy that the test serves."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from control.kit import RUN, TOKEN
from proxy.kit import Running, between, client
from proxy.wire import ANSWER, PLAIN_BODY

from hivemind.cli import main
from hivemind.control.tokenfile import Key

_PLAIN = {key: value for key, value in os.environ.items() if not key.startswith("HIVEMIND") and key != "NO_COLOR"}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def both(self) -> tuple[int, str]:
        """The exit code and its one line, of what is wrong or else of what was done."""
        return self.code, (self.err or self.out).removesuffix("\n")


async def run(folder: Path, *args: str, **environ: str) -> Ended:
    """Run `hivemind` with these arguments in that folder.

    It runs in a thread of this process, because to start Python and import it all takes a second; the loop serves the
    proxy meanwhile. One at a time: folder, environment and standard streams are the process's.
    """
    given = {**_PLAIN, "COLUMNS": "80", "USER": "ops", "HIVEMIND_STATE_DIR": str(folder / "state"), **environ}
    encoding = given.get("PYTHONIOENCODING", "utf-8")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2))
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, given, clear=True),
        mock.patch.multiple(sys, stdin=io.StringIO(), stdout=out, stderr=err),
    ):
        code = await asyncio.to_thread(_exit_code, args)
    said, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
    return Ended(code, said, complained)


def _exit_code(args: Sequence[str]) -> int:
    try:
        return main(args)
    except SystemExit as ended:  # by argparse
        return ended.code if isinstance(ended.code, int) else 1


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
        proxy.proxy.control_key = Key(RUN, TOKEN)
        for name in ("ann", "ann", "bob"):
            answer = await web.post(f"{proxy.url}/agent/{name}/v1/messages", content=PLAIN_BODY)
            assert answer.status_code == 200
        yield Desk(proxy, folder)
