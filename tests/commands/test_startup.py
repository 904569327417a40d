"""Small commands import no library that takes long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "asyncio",
    "httpx",
    "importlib.metadata",
    "mcp",
    "platformdirs",
    "pydantic",
    "shtab",
    "starlette",
    "textual",
    "tomlkit",
    "uvicorn",
    "yaml",
)
SCRIPT = f"""
import sys
from hivemind.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        ("--help", ["importlib.metadata"]),  # it lists the commands that other packages add
        ("--version", []),
        ("status --help", []),
        ("status --attach http://127.0.0.1:1", ["platformdirs"]),  # where the proxy would have left its note
        ("setup", []),
        ("setup claude-code --shell bash", []),
        ("completion --help", []),
    ],
)
def test_what_is_imported(tmp_path: Path, arguments: str, needed: list[str]) -> None:
    """Nothing that the command has no use for."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT, *arguments.split()], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stderr.splitlines()[-1] == str(needed)
