"""The servers under measurement, each in a process of its own, on a free port of the loopback interface."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from benchmarks.paths import environment
from benchmarks.perf.target import PerfError, Target
from benchmarks.perf.upstream import READY

_START_S = 30.0
_STOP_S = 5.0
_PROXY_READY = "hivemind: ready on "
_PROXY = "import sys; from hivemind.cli.main import main; sys.exit(main())"
_UNLIMITED = ("--max-concurrency", "0", "--rpm", "0", "--tpm", "0")
_NGINX_CONF = """\
daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000000;
    upstream measured {{
        server {upstream};
        keepalive 512;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{
            proxy_pass http://measured;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
"""


@asynccontextmanager
async def upstream() -> AsyncIterator[Target]:
    """The server that the others stand before.

    Raises: PerfError.
    """
    argv = (sys.executable, "-m", "benchmarks.perf.upstream")
    async with _told(argv, READY) as url:
        yield Target("direct", url)


@asynccontextmanager
async def hivemind(behind: Target, name: str = "hivemind", *flags: str) -> AsyncIterator[Target]:
    """`hivemind proxy` with no limits of its own; each client is an agent. What it keeps goes with it.

    Raises: PerfError.
    """
    place = ("--upstream", behind.url, "--port", "0", "--state-dir", "state")
    argv = (sys.executable, "-c", _PROXY, "proxy", *place, *_UNLIMITED, *flags)
    async with _told(argv, _PROXY_READY) as url:
        yield Target(name, url, "/agent/perf-{}")


def find_nginx() -> str | None:
    """The program, also where only root's path has it."""
    return shutil.which("nginx", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))


@asynccontextmanager
async def nginx(program: str, behind: Target) -> AsyncIterator[Target]:
    """nginx as a reverse proxy: one process, connections kept on both sides.

    Raises: PerfError.
    """
    with tempfile.TemporaryDirectory(prefix="hivemind-perf-") as folder:
        port = _free_port()
        conf = _written(folder, _NGINX_CONF.format(folder=folder, upstream=behind.authority, port=port))
        async with _running((program, "-p", folder, "-e", "stderr", "-c", conf), folder) as (process, errors):
            await _until_open(process, port, errors)
            yield Target("nginx", f"http://127.0.0.1:{port}")


@asynccontextmanager
async def _told(argv: Sequence[str], ready: str) -> AsyncIterator[str]:
    """A program that says on a line where it serves."""
    with tempfile.TemporaryDirectory(prefix="hivemind-perf-") as folder:
        async with _running(argv, folder) as (process, errors):
            assert process.stdout is not None
            try:
                line = await asyncio.wait_for(process.stdout.readline(), _START_S)
            except TimeoutError:
                raise PerfError(f"no server within {_START_S:g} s{_last_words(errors)}") from None
            text = line.decode()
            if not text.startswith(ready):
                raise PerfError(f"a server to measure didn't start{_last_words(errors)}")
            yield text.removeprefix(ready).split()[0]


@asynccontextmanager
async def _running(argv: Sequence[str], folder: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, IO[bytes]]]:
    """A child without the user's settings, and what it says on standard error."""
    environ = {name: value for name, value in environment().items() if not name.startswith("HIVEMIND_")}
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env=environ,
            start_new_session=True,  # an interrupt at the terminal is ours alone to act on
        )
        try:
            yield process, errors
        finally:
            await _stopped(process)


async def _stopped(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


async def _until_open(process: asyncio.subprocess.Process, port: int, errors: IO[bytes]) -> None:
    loop = asyncio.get_running_loop()
    latest = loop.time() + _START_S
    while process.returncode is None and loop.time() < latest:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)
            continue
        writer.close()
        await writer.wait_closed()
        return
    raise PerfError(f"nginx didn't start{_last_words(errors)}")


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return f": {said[-1]}" if said else ""


def _written(folder: str, conf: str) -> str:
    path = Path(folder, "nginx.conf")
    path.write_text(conf)
    return str(path)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port
