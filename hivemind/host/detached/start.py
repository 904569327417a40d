"""Starts a detached proxy, and waits until it serves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hivemind.errors import BindError, HiveMindError, UsageError
from hivemind.host.detached.order import DetachedOrder, Started, answer_in
from hivemind.records import replace
from hivemind.settings import FIRST_UPSTREAMS, Settings

READY_WITHIN_S = 60.0
"""How long a proxy may take until it serves."""
_READ_AT_ONCE = 1 << 16
_PROGRAM = "hivemind.host.detached.process"
_SECRET = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)(_|$)", re.IGNORECASE)


def completed(settings: Settings) -> Settings:
    """Return the settings with the upstreams that count where none is set.

    Raises: UsageError: the file that was found names others, and isn't trusted.
    """
    settings.check_upstream()
    return settings if settings.upstream else replace(settings, upstream=FIRST_UPSTREAMS)


async def start_detached(settings: Settings, settings_file: Path | None, environ: Mapping[str, str]) -> Started:
    """Start a proxy that outlives this process, and wait until it serves.

    It has these settings and no credential of the environment, because it needs none. If its starter is interrupted
    meanwhile, it serves all the same.

    Raises: BindError, UsageError, HiveMindError: it serves nothing.
    """
    process = _begin(DetachedOrder(_absolute(settings), settings_file), _environment(environ))
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            output = await _all_of(process)
    except TimeoutError:
        raise HiveMindError(f"the proxy doesn't serve after {READY_WITHIN_S:g} s; see hivemind logs") from None
    answer = answer_in(output)
    if isinstance(answer, Started):
        return answer
    if isinstance(answer, str):
        raise HiveMindError(f"the proxy ended before it served: {answer or 'see hivemind logs'}")
    if answer.in_use:
        raise BindError(answer.error, in_use=True)
    raise (UsageError if answer.exit_code == UsageError.exit_code else HiveMindError)(answer.error)


def _begin(order: DetachedOrder, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        # -P: no module of the working directory
        [sys.executable, "-P", "-m", _PROGRAM, str(order.settings.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environ),
        start_new_session=True,  # no key or end of the starter's terminal reaches it
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:  # it has ended, which is seen later
        order.write(process.stdin)
    return process


async def _all_of(process: subprocess.Popen[bytes]) -> bytes:
    """Return what it writes until it answers or ends."""
    loop, parts = asyncio.get_running_loop(), list[bytes]()
    done = loop.create_future()
    assert process.stdout is not None
    pipe = process.stdout.fileno()

    def read() -> None:
        data = os.read(pipe, _READ_AT_ONCE)
        parts.append(data)
        if not data:
            loop.remove_reader(pipe)
            done.set_result(None)

    with process.stdout:
        loop.add_reader(pipe, read)
        try:
            await done
        finally:
            loop.remove_reader(pipe)
    process.wait()  # it has ended, and the proxy is a child of its
    return b"".join(parts)


def _absolute(settings: Settings) -> Settings:
    """The proxy has another working directory."""
    paths = {name: getattr(settings, name) for name in ("state_dir", "ca_file")}
    return replace(settings, **{name: path and path.expanduser().absolute() for name, path in paths.items()})


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings come with the order."""
    return {
        name: value
        for name, value in environ.items()
        if not name.upper().startswith("HIVEMIND_") and not _SECRET.search(name)
    }
