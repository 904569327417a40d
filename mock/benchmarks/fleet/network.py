"""Where the proxies of a fleet run: each in a network namespace of its own, or all on the loopback interface.

Namespaces need Linux, root, and `ip` and `iptables`. They hang on a bridge, at whose address the provider and Redis
listen, so that a proxy can be cut off from either without touching the others.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.perf.target import PerfError

_NEEDED = ("ip", "iptables")
_SBIN = "/usr/sbin:/sbin"


@dataclass(slots=True)
class Host:
    """A machine, as far as its network goes."""

    address: str
    namespace: str = ""
    """Empty: the machine itself."""

    @property
    def prefix(self) -> tuple[str, ...]:
        """What goes before a command line for it to run there."""
        return (_program("ip"), "netns", "exec", self.namespace) if self.namespace else ()

    def cut_off(self, port: int) -> None:
        """Drop what goes from here to that TCP port, and what comes from it."""
        self._rules("-A", port)

    def reconnect(self, port: int) -> None:
        """Let it pass again."""
        self._rules("-D", port)

    def _rules(self, action: str, port: int) -> None:
        for chain, side in (("OUTPUT", "--dport"), ("INPUT", "--sport")):
            _run(*self.prefix, _program("iptables"), action, chain, "-p", "tcp", side, str(port), "-j", "DROP")


@dataclass(slots=True)
class Network:
    """The hosts of proxies, and the one of the provider and Redis."""

    center: Host
    hosts: list[Host] = field(default_factory=list)
    isolated: bool = False
    """The hosts are namespaces of their own."""


def why_not() -> str:
    """Return why there can't be namespaces here; empty: there can."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in _NEEDED if not _program(name)]
    if missing:
        return f"network namespaces need {' and '.join(missing)}"
    name = f"hm{os.getpid() % 100_000}t"
    try:
        _run(_program("ip"), "netns", "add", name)
        _run(_program("ip"), "netns", "del", name)
    except PerfError as error:
        return f"network namespaces aren't permitted here ({error})"
    return ""


@contextlib.contextmanager
def network(count: int, *, isolated: bool) -> Iterator[Network]:
    """So many hosts, removed at the end. Raises: PerfError."""
    if not isolated:
        yield Network(Host("127.0.0.1"), [Host("127.0.0.1") for _ in range(count)])
        return
    ip, mark = _program("ip"), f"hm{os.getpid() % 100_000}"
    subnet = f"10.77.{os.getpid() % 250}"
    with contextlib.ExitStack() as stack:
        bridge = f"{mark}b"
        _run(ip, "link", "add", bridge, "type", "bridge")
        stack.callback(_run, ip, "link", "del", bridge)
        _run(ip, "addr", "add", f"{subnet}.1/24", "dev", bridge)
        _run(ip, "link", "set", bridge, "up")
        found = Network(Host(f"{subnet}.1"), isolated=True)
        for number in range(count):
            host = Host(f"{subnet}.{number + 11}", f"{mark}n{number}")
            inner, outer = f"{mark}i{number}", f"{mark}o{number}"
            _run(ip, "netns", "add", host.namespace)
            stack.callback(_run, ip, "netns", "del", host.namespace)
            _run(ip, "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", host.namespace)
            _run(ip, "link", "set", outer, "master", bridge, "up")
            _run(*host.prefix, ip, "addr", "add", f"{host.address}/24", "dev", inner)
            _run(*host.prefix, ip, "link", "set", inner, "up")
            _run(*host.prefix, ip, "link", "set", "lo", "up")
            found.hosts.append(host)
        yield found


def _program(name: str) -> str:
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), _SBIN))) or ""


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PerfError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
