from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import asyncio, sys
import httpx
from pathlib import Path
from hivemind.host import server
from hivemind.host.proxy import Proxy
from hivemind.settings import Settings

def loaded():
    return sorted(name for name in sys.modules if name.partition(".")[0] in ("mcp", "mcp_types"))

async def main():
    settings = Settings(upstream=("http://127.0.0.1:9",), port=0, state_dir=Path("state"))
    proxy = Proxy(settings)
    async with server.serve(proxy, settings), httpx.AsyncClient(timeout=60, trust_env=False) as web:
        await web.get(proxy.address + "/_health")
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        refused = await web.post(proxy.address + "/mcp", json=call)
        print(refused.status_code, loaded())
        bearer = "Bearer " + proxy.control_key.token
        headers = {"authorization": bearer, "accept": "application/json, text/event-stream"}
        answer = await web.post(proxy.address + "/mcp", json=call, headers=headers)
        print(answer.status_code, "mcp" in loaded())

asyncio.run(main())
"""


@pytest.mark.slow
def test_nobody_waits_for_the_sdk(tmp_path: Path) -> None:
    """A proxy starts, serves and turns strangers away without the SDK, which is loaded for the first who may call."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("401 []\n200 True\n", "")


def test_the_command_line_does_not_load_it() -> None:
    """Nor does a command that isn't the server, not even to list what there is."""
    script = (
        "import sys; from hivemind.cli import main as cli; cli.main(['version'])\n"
        "import hivemind.cli.mcp, hivemind.tools.http, hivemind.tools.proxy_tools\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'mcp'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1] == "[]"
