"""Real Redis servers for tests: each on a port or socket of its own, started, stopped, suspended and killed at will."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ports import unused_port

if TYPE_CHECKING:
    import redis

_START_S = 20.0


def program() -> str:
    """Return the path of redis-server or valkey-server; where neither is installed, skip the test."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    pytest.skip("neither redis-server nor valkey-server is installed")


class RedisServer:
    """One server process that keeps nothing on disk. :meth:`start` and :meth:`kill` may be repeated."""

    def __init__(
        self, *, password: str = "", unix: bool = False, certificate: Path | None = None, options: tuple[str, ...] = ()
    ) -> None:
        """`unix`: listen on a unix socket only; `certificate`: a PEM file with key and chain, for TLS only; `options`
        are further arguments of redis-server."""
        self._program = program()
        self._password = password
        self._options = options
        self._certificate = certificate
        self._folder = Path(tempfile.mkdtemp(prefix="hm-redis-"))  # short, as paths of unix sockets must be
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = self._folder / "redis.sock" if unix else None
        self.port = 0 if unix else unused_port()

    @property
    def url(self) -> str:
        """URL with the password."""
        return self.url_with(self._password)

    def url_with(self, password: str) -> str:
        """Return the URL with another password, or (empty) without one."""
        shown = f":{password}@" if password else ""
        if self.socket is not None:
            return f"unix://{shown}{self.socket}"
        return f"{'rediss' if self._certificate else 'redis'}://{shown}127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        args = [self._program, "--save", "", "--appendonly", "no", "--dir", str(self._folder), "--databases", "16"]
        args += ["--repl-diskless-sync-delay", "0"]
        if self.socket is not None:
            args += ["--port", "0", "--unixsocket", str(self.socket)]
        elif self._certificate is not None:
            args += ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
            args += ["--tls-cert-file", str(self._certificate), "--tls-key-file", str(self._certificate)]
        else:
            args += ["--port", str(self.port), "--bind", "127.0.0.1"]
        if self._password:
            args += ["--requirepass", self._password]
        log = self._folder / "redis.log"
        with log.open("ab") as file:
            self._process = subprocess.Popen([*args, *self._options], stdout=file, stderr=file)
        ended_at = time.monotonic() + _START_S
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > ended_at:
                raise AssertionError(f"redis-server didn't start:\n{log.read_text()}")
            time.sleep(0.01)

    def _accepts(self) -> bool:
        family, at = (socket.AF_UNIX, str(self.socket)) if self.socket else (socket.AF_INET, ("127.0.0.1", self.port))
        with socket.socket(family) as probe:
            try:
                probe.connect(at)
            except OSError:
                return False
        return True

    def command(self, *args: str) -> str:
        """Run one command over a connection of its own, and return the answer as text."""
        with contextlib.closing(client(self.url, checked=self._certificate is None)) as connected:
            answer = connected.execute_command(*args)  # type: ignore[no-untyped-call]
        return answer.decode() if isinstance(answer, bytes) else str(answer)

    def kill(self) -> None:
        """kill -9: what it knew is lost."""
        self._end(signal.SIGKILL)

    def suspend(self) -> None:
        """Stop it without closing anything: connections are accepted by the system, and never answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it, and remove its files."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)  # which does nothing where it has ended
            self._process.wait()
            self._process = None
        if self.socket is not None:
            self.socket.unlink(missing_ok=True)


def client(url: str, *, checked: bool = True) -> redis.Redis:
    """Return a connection of the test's own; with `checked` False to any certificate."""
    import redis

    return redis.Redis.from_url(url, **({} if checked else {"ssl_cert_reqs": "none"}))


@contextlib.contextmanager
def running(
    *, password: str = "", unix: bool = False, certificate: Path | None = None, options: tuple[str, ...] = ()
) -> Iterator[RedisServer]:
    """Run a server as :class:`RedisServer` describes it. Skips the test where there is none to run."""
    server = RedisServer(password=password, unix=unix, certificate=certificate, options=options)
    try:
        server.start()
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def replica_of(primary: RedisServer) -> Iterator[RedisServer]:
    """Run a replica of a server without password, in step with it."""
    options = ("--replicaof", "127.0.0.1", str(primary.port))
    with running(options=options) as server:
        wait_until(lambda: "'master_link_status': 'up'" in server.command("INFO", "replication"))
        yield server


def wait_until(true: Callable[[], bool], timeout_s: float = _START_S) -> None:
    """Wait, asking often. Raises: AssertionError: it didn't become true."""
    ended_at = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < ended_at, "it didn't become true in time"
        time.sleep(0.01)
