"""Attached without a screen: what happens to the proxy elsewhere is told in lines, and so is its being away."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from hivemind import logs
from hivemind.host.listening import bind
from hivemind_tui.program.main import main

PROGRAM = "import sys; from hivemind_tui.program.main import main; sys.exit(main())"


@pytest.mark.e2e
async def test_an_unreachable_proxy_is_reported_in_a_line(tmp_path: Path) -> None:
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
def test_an_invalid_address_is_refused_in_one_line(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, and no secret is repeated."""
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    assert main(["--attach", url]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "secret" not in err
