"""Small commands import no library that takes long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = (
    *("asyncio", "click", "httpx", "importlib.metadata", "mcp", "platformdirs", "prometheus_client", "pydantic"),
    *("pygments", "rich", "shtab", "starlette", "textual", "tomlkit", "uvicorn", "yaml"),
)
COMMANDS = (
    *("--version", "status --help", "agents --help", "tasks --help", "budget --help", "set --help"),
    *("setup", "setup claude-code --shell bash", "completion --help"),
    "status --attach http://127.0.0.1:1",  # looks for the note that the proxy would have left, with platformdirs
    "--help",  # lists the commands that other packages add
    "run -- no-such-program",
)
SCRIPT = f"""
import sys
from hivemind.cli.main import main
for line in {COMMANDS}:
    try:
        main(line.split())
    except SystemExit:
        pass
    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


def test_what_is_imported(tmp_path: Path) -> None:
    """Nothing that a command has no use for, and one after the other no more than the last ones need."""
    done = subprocess.run([sys.executable, "-I", "-c", SCRIPT], capture_output=True, text=True, cwd=tmp_path)
    found = [line for line in done.stderr.splitlines() if line.startswith("[")]
    last = ("platformdirs", "importlib.metadata, platformdirs", "asyncio, httpx, importlib.metadata, platformdirs")
    assert found == ["[]"] * (len(COMMANDS) - 3) + [f"[{', '.join(map(repr, each.split(', ')))}]" for each in last]
