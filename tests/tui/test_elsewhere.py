"""Attached without a screen: what happens to the proxy elsewhere is told in lines, and so is its being away."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from hivemind.host.server import bind

PROGRAM = "import sys; from hivemind_tui.program.main import main; sys.exit(main())"


async def test_a_proxy_that_isnt_there_is_told_in_a_line(tmp_path: Path) -> None:
    """Nobody has to guess why nothing happens; leaving is an orderly end."""
    (sock,) = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    sock.close()
    environ = {**os.environ, "HIVEMIND_CONTROL_TOKEN": "not-the-right-one", "XDG_STATE_HOME": str(tmp_path)}
    attach = (sys.executable, "-c", PROGRAM, "--attach", f"http://127.0.0.1:{port}")
    process = await asyncio.create_subprocess_exec(
        *attach,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environ,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(30):
        assert (await process.stdout.readline()).decode() == f"hivemind-tui: attached to http://127.0.0.1:{port}\n"
        assert (await process.stderr.readline()).decode().startswith("not connected: ")
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://user:secret@127.0.0.1:8765", "nonsense"])
async def test_what_is_no_address_is_refused_in_one_line(url: str, tmp_path: Path) -> None:
    """Exit code 2, and no secret repeated."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        "--attach",
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
        cwd=tmp_path,
    )
    async with asyncio.timeout(30):
        _, err = await process.communicate()
    assert process.returncode == 2
    assert err.decode().count("\n") == 1
    assert "secret" not in err.decode()
