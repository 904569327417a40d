"""The servers under measurement, each in a process of its own, on a free port of the loopback interface."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from benchmarks.paths import environment
from benchmarks.perf.target import PerfError, Target
from benchmarks.perf.upstream import READY
from benchmarks.perf.wire import KEY, MODEL
from hivemind import __version__

_START_S = 30.0
_LITELLM_START_S = 120.0
_STOP_S = 5.0
_PROXY_READY = "hivemind: ready on "
_PROXY = "import sys; from hivemind.cli.main import main; sys.exit(main())"
UNLIMITED = (
    *("--profile", "generic", "--max-concurrency", "0", "--rpm", "0", "--tpm", "0"),
    *("--budget.tokens", "1000000000000"),
)
"""No limits that hold anything up, but a budget of each agent's that is counted."""
_LITELLM = f"""\
model_list:
  - model_name: {MODEL}
    litellm_params: {{{{model: anthropic/{MODEL}, api_base: "{{url}}", api_key: {KEY}}}}}
general_settings: {{{{master_key: {KEY}, dangerously_permit_weak_or_unset_master_key: true}}}}
"""
_PORTKEY_HEADERS = "x-portkey-provider: anthropic\r\nx-portkey-custom-host: {url}/v1\r\n"
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
    async with module("benchmarks.perf.upstream") as url:
        yield Target("direct", url)


@asynccontextmanager
async def module(name: str) -> AsyncIterator[str]:
    """A server of this package in a process of its own; yields its URL. Raises: PerfError."""
    async with _told((sys.executable, "-m", name), READY) as (url, _):
        yield url


@asynccontextmanager
async def hivemind(
    behind: Target, name: str = "hivemind", *flags: str, python: str = sys.executable
) -> AsyncIterator[Target]:
    """`hivemind proxy` as it is by default, with a journal, and with a budget of each agent's; each client is an agent.
    What it keeps goes with it. `python` is the interpreter of the environment that the proxy is installed in.

    Raises: PerfError.
    """
    place = ("--upstream", behind.url, "--port", "0", "--state-dir", "state")
    argv = (python, "-c", _PROXY, "proxy", *place, *UNLIMITED, *flags)
    async with _told(argv, _PROXY_READY) as (url, pid):
        yield Target(name, url, "/agent/perf-{}", pid=pid, has_metrics=True)


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
        conf = _written(folder, "nginx.conf", _NGINX_CONF.format(folder=folder, upstream=behind.authority, port=port))
        async with _running((program, "-p", folder, "-e", "stderr", "-c", conf), folder) as (process, errors):
            await _until_open("nginx", process, port, errors)
            yield Target("nginx", f"http://127.0.0.1:{port}", pid=process.pid)


@asynccontextmanager
async def litellm(program: str, behind: Target) -> AsyncIterator[Target]:
    """LiteLLM's proxy as its documentation starts it. Raises: PerfError."""
    async with litellm_with(program, _LITELLM.format(url=behind.url)) as target:
        yield target


@asynccontextmanager
async def litellm_with(program: str, config: str) -> AsyncIterator[Target]:
    """LiteLLM's proxy with a configuration. Raises: PerfError."""
    with tempfile.TemporaryDirectory(prefix="hivemind-perf-") as folder:
        port = _free_port()
        path = _written(folder, "config.yaml", config)
        argv = (program, "--config", path, "--host", "127.0.0.1", "--port", str(port))
        async with _running(argv, folder, stdout=asyncio.subprocess.DEVNULL) as (process, errors):
            await _until_open("LiteLLM", process, port, errors, _LITELLM_START_S)
            yield Target("litellm", f"http://127.0.0.1:{port}", pid=process.pid)


@asynccontextmanager
async def portkey(program: str, behind: Target) -> AsyncIterator[Target]:
    """Portkey's gateway; `program` is the script in its package. Raises: PerfError."""
    with tempfile.TemporaryDirectory(prefix="hivemind-perf-") as folder:
        port = _free_port()
        argv = ("node", program, f"--port={port}", "--headless")
        async with _running(argv, folder, stdout=asyncio.subprocess.DEVNULL) as (process, errors):
            await _until_open("Portkey", process, port, errors)
            headers = _PORTKEY_HEADERS.format(url=behind.url)
            yield Target("portkey", f"http://127.0.0.1:{port}", headers=headers, pid=process.pid)


def versions(nginx: str | None, litellm: str | None, portkey: str | None) -> dict[str, str]:
    """Return the version of each program that there is."""
    found = {"hivemind": __version__}
    if nginx is not None:
        found["nginx"] = _version(subprocess.run((nginx, "-v"), capture_output=True, check=False).stderr)
    if litellm is not None:
        found["litellm"] = _version(subprocess.run((litellm, "--version"), capture_output=True, check=False).stdout)
    if portkey is not None:
        package = (Path(portkey).parents[1] / "package.json").read_bytes()
        found["portkey"] = _version(package.partition(b'"version"')[2])
    return found


def _version(text: bytes) -> str:
    number = re.search(rb"\d+(\.\d+)+", text)
    return number[0].decode() if number else "?"


def find_litellm() -> str | None:
    """The program that `LITELLM` names, or that is on the path."""
    return os.environ.get("LITELLM") or shutil.which("litellm")


def find_portkey() -> str | None:
    """The script of `@portkey-ai/gateway` that `PORTKEY` names, or of the package in this folder's `node_modules`."""
    if shutil.which("node") is None:
        return None
    installed = Path("node_modules/@portkey-ai/gateway/build/start-server.js")
    return os.environ.get("PORTKEY") or (str(installed.absolute()) if installed.exists() else None)


@asynccontextmanager
async def _told(argv: Sequence[str], ready: str) -> AsyncIterator[tuple[str, int]]:
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
            yield text.removeprefix(ready).split()[0], process.pid


@asynccontextmanager
async def _running(
    argv: Sequence[str], folder: str, stdout: int = asyncio.subprocess.PIPE
) -> AsyncIterator[tuple[asyncio.subprocess.Process, IO[bytes]]]:
    """A child without the user's settings, and what it says on standard error."""
    environ = {name: value for name, value in environment().items() if not name.startswith("HIVEMIND_")}
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
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


async def _until_open(
    name: str, process: asyncio.subprocess.Process, port: int, errors: IO[bytes], within_s: float = _START_S
) -> None:
    loop = asyncio.get_running_loop()
    latest = loop.time() + within_s
    while process.returncode is None and loop.time() < latest:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
            continue
        writer.close()
        await writer.wait_closed()
        return
    raise PerfError(f"{name} didn't start{_last_words(errors)}")


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return f": {said[-1]}" if said else ""


def _written(folder: str, name: str, conf: str) -> str:
    path = Path(folder, name)
    path.write_text(conf)
    return str(path)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port
