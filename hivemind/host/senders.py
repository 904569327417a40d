"""Which process sent a request over loopback, and whose descendant it is; from Linux's `/proc`, elsewhere unknown.

A connection's entry in `/proc/net/tcp` names the inode of the sender's socket, and `/proc/PID/fd` which processes hold
it (https://man7.org/linux/man-pages/man5/proc_pid_fd.5.html). All of this reads files, so it belongs in a thread.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_TRIES = 3
"""A process that forks while `/proc` is read may be missed once."""
_PAUSE_S = 0.01
_DEEPEST = 10_000

Address = tuple[str, int]


class Gone(Exception):
    """The process that sent the request can't be found, though it must be on this machine."""


def available() -> bool:
    """Return whether this system tells which process sent a request."""
    return sys.platform == "linux" and os.access("/proc/self/stat", os.R_OK) and os.access(_TABLES[0], os.R_OK)


def roots_of(client: Address, server: Address, roots: Collection[int]) -> set[int]:
    """Return of these processes the nearest ancestors of each process that holds the client's end of a connection;
    empty: it is none's descendant, or on another machine. Blocks.

    Raises: Gone.
    """
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_S)
        found = _socket(client, server)
        if found is None:
            if not _is_here(client, server):
                return set()
            continue
        inode, user = found
        if not inode:
            continue  # closed by the sender, or just now accepted
        link = f"socket:[{inode}]"
        parents = dict(_parents())
        inside = {pid: root for pid in parents if (root := nearest(pid, roots, parents)) is not None}
        held = {inside[pid] for pid in inside if _holds(pid, link)}
        if held:
            return held
        # A sender that isn't found at all may have left one of the processes above while they were read.
        if user != os.geteuid() or any(_holds(pid, link) for pid in _newest_first(parents, inside)):
            return set()
    raise Gone


def nearest(pid: int, roots: Collection[int], parents: Mapping[int, int] | None = None) -> int | None:
    """Return the nearest ancestor of a process that is one of these; not the process itself."""
    for _ in range(_DEEPEST):
        above = parent_of(pid) if parents is None else parents.get(pid)
        if not above:
            return None
        if above in roots:
            return above
        pid = above
    return None


def parent_of(pid: int) -> int | None:
    """Return the parent of a process; None: there is no such process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def identity(pid: int) -> str:
    """Return `PID STARTED` of a process, which tells it from a later one with its number; empty: unknown."""
    fields = _stat(pid)
    return "" if fields is None else f"{pid} {fields[19]}"


def _stat(pid: int) -> list[str] | None:
    """Return the fields from the third on (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _parents() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc"):
        if name.isdecimal() and (fields := _stat(int(name))) is not None:
            yield int(name), int(fields[1])


def _newest_first(parents: Iterable[int], without: Collection[int]) -> list[int]:
    """Return processes in the order in which they are likely to hold a new connection; the proxy itself last."""
    return sorted((pid for pid in parents if pid not in without), key=lambda pid: (pid == os.getpid(), -pid))


def _holds(pid: int, link: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{name}") == link:
                return True
    return False


def _is_here(client: Address, server: Address) -> bool:
    one, other = _plain(client[0]), _plain(server[0])
    return one == other or one.is_loopback


def _plain(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(host.partition("%")[0])
    return (found.version == 6 and found.ipv4_mapped) or found


def _socket(client: Address, server: Address) -> tuple[int, int] | None:
    """Return inode and user of the client's end; None: there is none on this machine."""
    for table in _TABLES:
        mapped = table.endswith("6")
        row = f" {_shown(client, mapped)} {_shown(server, mapped)} "
        try:
            with open(table, encoding="ascii") as file:
                text = file.read()
        except OSError:
            continue
        at = text.find(row)
        if at >= 0:
            fields = text[at + len(row) : at + len(row) + 200].split()
            return int(fields[6]), int(fields[4])
    return None


def _shown(address: Address, six: bool) -> str:
    """Return an address as the tables have it: words in the machine's byte order."""
    host = _plain(address[0])
    packed = host.packed
    if six and host.version == 4:
        packed = b"\0" * 10 + b"\xff\xff" + packed
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    shown = "".join((word[::-1] if sys.byteorder == "little" else word).hex() for word in words)
    return f"{shown.upper()}:{address[1]:04X}"
