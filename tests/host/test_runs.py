"""Tokens of runs, and whose process a request comes from."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from hivemind.agent_names import same
from hivemind.control.rights import OPERATOR, Denied, Principal
from hivemind.host import senders
from hivemind.host.runs import Runs
from hivemind.proxy.cycle import EXTENSION

needs_linux = pytest.mark.skipif(not senders.available(), reason="only Linux tells whose process sent a request")
CONTROL = "control-token-of-the-tests"


def runs(file: Path | None = None) -> Runs:
    """Of a proxy; its agents have started nothing."""
    return Runs(file, same)


async def test_a_token_is_one_runs() -> None:
    """It opens the control API as its agent, until the run ends; a later run of the same agent has another."""
    proxy = runs()
    first = proxy.began("ann", "runner-1", "")
    assert proxy.began("ann", "runner-1", "") == first, "the same with each renewal"
    assert (proxy.agent_of(first), proxy.agent_of(proxy.began("Böb/x", "r", ""))) == ("ann", "Böb/x")
    assert await proxy.principal(first, CONTROL, {}) == Principal("ann")
    assert await proxy.principal(CONTROL, CONTROL, {}) == OPERATOR
    for wrong in ("", "hmrun-", first[:-1], first + "0", first.replace("YW5u", "Ym9i"), "hmrun-%%%.a.b", "é"):
        assert await proxy.principal(wrong, CONTROL, {}) is None
    proxy.ended("ANN")
    assert proxy.agent_of(first) is None
    second = proxy.began("ann", "runner-2", "")
    assert (proxy.agent_of(first), proxy.agent_of(second)) == (None, "ann")
    assert CONTROL not in first


def test_a_token_outlives_the_proxy(tmp_path: Path) -> None:
    """Its key is in a file for the user alone; of runs that aren't live the next proxy takes none."""
    file = tmp_path / "state" / "proxy-8765.key"
    file.parent.mkdir()
    first = runs(file)
    token, over = first.began("ann", "runner-1", ""), first.began("bob", "runner-2", "")
    assert file.stat().st_mode & 0o777 == 0o600
    second = runs(file)
    assert (second.agent_of(token), second.agent_of(over)) == (None, None)
    second.kept("ann")
    assert (second.agent_of(token), second.agent_of(over)) == ("ann", None)
    assert second.began("ann", "runner-1", "") == token
    second.began("ann", "runner-3", "")
    assert second.agent_of(token) is None, "another runner has the name now"
    file.chmod(0o644)
    third = runs(file)
    third.kept("ann")
    assert third.agent_of(token) is None, "others could have read the key"
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


CONNECTS = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); sys.stdin.read()"


def connecting(listener: socket.socket) -> subprocess.Popen[bytes]:
    """A process that has a connection to the listener, until its input ends."""
    command = (sys.executable, "-c", CONNECTS, str(listener.getsockname()[1]))
    return subprocess.Popen(command, stdin=subprocess.PIPE)


@needs_linux
async def test_whose_process_it_is(listener: socket.socket) -> None:
    """A descendant's requests are its run's whatever it shows, the runner's own and others' are as their token says."""
    proxy = runs()
    token, others = proxy.began("ann", "r", senders.identity(os.getpid())), proxy.began("bob", "s", "")
    with connecting(listener) as child, listener.accept()[0] as accepted:
        scope = {"client": accepted.getpeername(), "server": accepted.getsockname()}
        for shown in (CONTROL, token, others):
            assert await proxy.principal(shown, CONTROL, scope) == Principal("ann")
        assert await proxy.principal("made-up", CONTROL, scope) is None
        proxy.began("carol", "r", senders.identity(os.getpid()))
        assert await proxy.principal(token, CONTROL, scope) == Principal("ann")
        with pytest.raises(Denied, match="one of several runs"):
            await proxy.principal(CONTROL, CONTROL, scope)
        assert child.stdin is not None
        child.stdin.close()
    with pytest.raises(Denied, match="can't be found"):
        await proxy.principal(CONTROL, CONTROL, scope)
    left = SimpleNamespace(connection=None, disconnected=True)
    assert await proxy.principal(CONTROL, CONTROL, {**scope, "extensions": {EXTENSION: left}}) is None
    with socket.create_connection(listener.getsockname()) as own, listener.accept()[0]:
        scope = {"client": own.getsockname(), "server": own.getpeername()}
        assert await proxy.principal(CONTROL, CONTROL, scope) == OPERATOR
        assert await proxy.principal(others, CONTROL, scope) == Principal("bob")
    elsewhere = {"client": ("192.0.2.7", 5), "server": ("192.0.2.8", 6)}
    assert await proxy.principal(CONTROL, CONTROL, elsewhere) == OPERATOR


@needs_linux
async def test_whose_process_it_is_outlives_the_proxy(listener: socket.socket, tmp_path: Path) -> None:
    """The next proxy knows from the start, before a runner has come back."""
    file = tmp_path / "proxy-8765.key"
    first = runs(file)
    first.began("ann", "r", senders.identity(os.getpid()))
    first.began("bob", "s", senders.identity(os.getpid()))
    first.ended("bob")
    second = runs(file)
    second.kept("ann")
    second.kept("bob")
    with connecting(listener) as child, listener.accept()[0] as accepted:
        scope = {"client": accepted.getpeername(), "server": accepted.getsockname()}
        assert await second.principal(CONTROL, CONTROL, scope) == Principal("ann")
        assert child.stdin is not None
        child.stdin.close()
    assert file.with_suffix(".runs").stat().st_mode & 0o777 == 0o600


@needs_linux
def test_only_its_own_processes(listener: socket.socket) -> None:
    """A run can't name a process that isn't a descendant of its own as another run's, to have others taken for it."""
    proxy = runs()
    with subprocess.Popen(("sleep", "60")) as child:
        mine = senders.identity(child.pid)
        assert not proxy.within("ann", mine)
        proxy.began("ann", "r", senders.identity(os.getpid()))
        assert proxy.within("ann", mine)
        assert not proxy.within("bob", mine)
        assert not proxy.within("ann", senders.identity(os.getpid()))
        assert not proxy.within("ann", senders.identity(1))
        assert not proxy.within("ann", f"{child.pid} 1"), "that was an earlier process"
        child.kill()


@needs_linux
@pytest.mark.parametrize("host", ["::1", "::ffff:127.0.0.1"])
def test_addresses(host: str) -> None:
    """Connections over IPv6, and IPv4 within it, are found too."""
    try:
        server = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server, socket.create_connection((host, server.getsockname()[1])), server.accept()[0] as accepted:
        roots = {os.getppid()}
        found = senders.roots_of(accepted.getpeername()[:2], accepted.getsockname()[:2], roots)
        assert found == roots
