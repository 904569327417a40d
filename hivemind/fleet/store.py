"""The store that proxies of a fleet share: one Redis or Valkey, over redis-py's asyncio connections.

Commands of all parts go over one connection, one exchange at a time, and messages come over a second one. A command in
flight is never given up on an open connection, because its answer would be taken for the next command's: on a timeout
or a cancellation the connection is closed. Nothing is repeated here: only a command's sender knows whether it may be.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import math
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import Enum
from functools import cache
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hivemind.errors import HiveMindError, UsageError
from hivemind.settings.store_address import store_address

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

_log = logging.getLogger(__name__)

CONNECT_S = 1.0
"""Longest wait for a connection, TLS and password included."""
ANSWER_S = 1.0
"""Longest wait for the answers to what was sent together; Redis needs a thousandth of that."""
FIRST_RETRY_S = 0.05
LONGEST_RETRY_S = 1.0
"""Between two attempts to connect; doubled from the first to the longest. Calls in between fail at once."""
MOST_BYTES = 64 << 20
"""Bytes of a text in an answer."""
_NO_PROTOCOL = (ValueError, RecursionError)
"""What redis-py raises, besides its own, of numbers that are none, endless lines and nested lists."""
QUIET_S = 5.0
"""A connection for messages that was silent for so long is asked whether it still is one."""

Answer = bytes | int | list[Any] | None
"""As RESP2 knows it: texts are bytes."""
Argument = str | bytes | int | float


class Fault(Enum):
    """Who is affected, as far as can be told."""

    AWAY = "away"
    """The store doesn't serve anybody now."""
    UNREACHABLE = "unreachable"
    """It isn't reached from here; others may go on with it."""
    MISTAKE = "mistake"
    """It is there, but what this proxy was told about it (password, certificates, rights, address) is wrong."""


class StoreError(HiveMindError):
    """The store didn't do what it was asked for."""

    def __init__(self, text: str, kind: str, fault: Fault) -> None:
        super().__init__(text)
        self.kind = kind
        """One word, for metrics and for comparing: `refused`, `silent`, `password` ..."""
        self.fault = fault


class Script(Struct, frozen=True):
    """A Lua script; Redis knows it by its digest after the first use."""

    text: str
    digest: str

    @classmethod
    def of(cls, text: str) -> Script:
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class ScriptRun(Struct, frozen=True):
    """One call of a script, which has one key, so that every node of a cluster can run it."""

    script: Script
    key: str
    arguments: tuple[Argument, ...] = ()

    def command(self, *, whole: bool = False) -> tuple[Argument, ...]:
        """Return the command, which names the script by its digest, or holds its whole text."""
        script = ("EVAL", self.script.text) if whole else ("EVALSHA", self.script.digest)
        return (*script, 1, self.key, *self.arguments)


Command = ScriptRun | tuple[Argument, ...]


class FleetStore:
    """Connections to one store. Everything is called from one event loop.

    Commands that block (BLPOP) aren't to be sent: they would hold up everybody else's. Nothing is connected before the
    first call; later ones connect again where that is needed.

    Raises: UsageError: the URL can't be one, or redis-py isn't installed.
    """

    def __init__(self, url: str, ca_file: Path | None = None, *, name: str = "hivemind") -> None:
        """`ca_file` holds certificates to trust besides the system's; the store lists its clients with their `name`."""
        try:
            self.address = store_address(url)
        except ValueError as error:
            raise UsageError(f"fleet: {error}") from None
        self._redis = _library()
        self._name = name
        self._ca_file = ca_file
        self._connection: AbstractConnection | None = None
        self._lock = asyncio.Lock()
        self._retry_at = -math.inf
        self._retry_s = FIRST_RETRY_S
        self._failed: StoreError | None = None
        """Why the last attempt to connect failed."""
        self._heard = True
        """The store's machine was heard of when the connection was lost: the store closed it, or took a new one."""
        self._messages = _Messages(self)

    @property
    def shown(self) -> str:
        """The store's URL without user and password."""
        return self.address.shown

    # --- Commands ---------------------------------------------------------------------------------------------------

    async def call(self, *command: Argument) -> Answer:
        """Send one command and return its answer. Raises: StoreError."""
        (answer,) = await self.pipeline([command])
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def run(self, script: Script, key: str, *arguments: Argument) -> Answer:
        """Run a script with its one key. Raises: StoreError."""
        (answer,) = await self.pipeline([ScriptRun(script, key, arguments)])
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def pipeline(self, commands: Sequence[Command]) -> list[Answer | StoreError]:
        """Send commands together and return the answer of each, which may be an error of its own.

        They aren't a transaction: another member's may be carried out in between.

        Raises: StoreError: the store wasn't reached, or none of the answers came; some may have been carried out.
        """
        if not commands:
            return []
        async with self._lock:
            answers = await self._exchange(
                [each.command() if isinstance(each, ScriptRun) else each for each in commands]
            )
            # A store that was restarted, or a replica that took over, doesn't know the scripts.
            unknown = [
                (place, command)
                for place, command in enumerate(commands)
                if isinstance(command, ScriptRun) and isinstance(answers[place], self._redis.NoScriptError)
            ]
            if unknown:
                again = await self._exchange([run.command(whole=True) for _, run in unknown])
                for (place, _), answer in zip(unknown, again, strict=True):
                    answers[place] = answer
        return [self._error(each) if isinstance(each, Exception) else each for each in answers]

    async def _exchange(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Send and receive. An answer may be an exception of redis-py."""
        connection = await self._connected()
        answers: list[Any] = []
        try:
            async with asyncio.timeout(ANSWER_S):
                await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
                for _ in commands:
                    try:
                        answers.append(await connection.read_response())
                    except self._redis.ResponseError as error:
                        answers.append(error)
        except (self._redis.RedisError, OSError, TimeoutError, *_NO_PROTOCOL) as error:
            # redis-py has closed the connection in most cases, but not in all.
            await self._drop(connection)
            found = self._error(error)
            self._heard = found.kind == "closed"
            raise found from None
        except BaseException:
            await self._drop(connection)
            raise
        return answers

    # --- Connections ------------------------------------------------------------------------------------------------

    async def _connected(self) -> AbstractConnection:
        connection = self._connection
        if connection is not None and connection.is_connected:
            return connection
        loop = asyncio.get_running_loop()
        failed = self._failed
        if failed is not None and loop.time() < self._retry_at:
            raise StoreError(str(failed), failed.kind, failed.fault)
        try:
            connection = self._connection = await self.open_connection()
        except StoreError as error:
            if error.kind in _TELLING:
                self._heard = error.kind == "silent"
            self._failed = error
            self._retry_at = loop.time() + self._retry_s * random.uniform(0.5, 1.0)
            self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)
            raise
        self._failed, self._retry_s = None, FIRST_RETRY_S
        return connection

    async def open_connection(self) -> AbstractConnection:
        """Open a connection, and show user and password to it. Raises: StoreError."""
        accepted = False

        async def on_connect(connection: AbstractConnection) -> None:
            nonlocal accepted
            accepted = True
            await connection.on_connect()

        connection = self._made(on_connect)
        try:
            async with asyncio.timeout(CONNECT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("CLIENT", "SETNAME", self._name, check_health=False)
                # Any command is refused where the password is missing, so the error is known here. A user that may
                # only run commands on keys needn't have a name.
                with contextlib.suppress(self._redis.ResponseError):
                    await connection.read_response()
        except (self._redis.RedisError, OSError, TimeoutError, *_NO_PROTOCOL) as error:
            await self._drop(connection)
            if isinstance(error, TimeoutError | self._redis.TimeoutError) and self.address.tls and not accepted:
                accepted = await self._is_open()
            raise self._error(error, connecting=True, accepted=accepted) from None
        except BaseException:
            await self._drop(connection)
            raise
        return connection

    def _made(self, on_connect: Callable[[AbstractConnection], Awaitable[None]]) -> AbstractConnection:
        from redis.asyncio import connection as kinds

        address = self.address
        given: dict[str, Any] = {
            "db": address.database,
            "username": address.user,
            "password": address.password,
            "socket_timeout": None,  # a timeout is set around each exchange
            "socket_connect_timeout": CONNECT_S,
            "protocol": 2,  # no HELLO, which old servers and proxies before a store don't know
            "driver_info": None,
            "redis_connect_func": on_connect,
            "parser_class": _bounded_parser(),
        }
        if address.path:
            return kinds.UnixDomainSocketConnection(path=address.path, **given)
        given |= {"host": address.host, "port": address.port}
        if not address.tls:
            return kinds.Connection(**given)
        return kinds.SSLConnection(ssl_ca_certs=None if self._ca_file is None else str(self._ca_file), **given)

    async def _is_open(self) -> bool:
        """Return whether the port takes connections: then it is TLS that wasn't answered."""
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(self.address.host, self.address.port)
        except OSError:
            return False
        writer.close()
        return True

    async def _drop(self, connection: AbstractConnection) -> None:
        with contextlib.suppress(self._redis.RedisError, OSError):
            await connection.disconnect(nowait=True)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._messages.aclose()
        if self._connection is not None:
            await self._drop(self._connection)

    # --- Messages ---------------------------------------------------------------------------------------------------

    def subscribe(self, channel: str, on_message: Callable[[str | None], object]) -> None:
        """Call back with each message of a channel, from soon on.

        Messages are lost while there is no connection. Called with None whenever some may have been, and once when
        messages begin to come.
        """
        self._messages.add(channel, on_message)

    def unsubscribe(self, channel: str) -> None:
        """Take no further messages of that channel."""
        self._messages.remove(channel)

    # --- Errors -----------------------------------------------------------------------------------------------------

    def _error(self, error: Exception, *, connecting: bool = False, accepted: bool = True) -> StoreError:
        """Return what an exception of redis-py or of the system means."""
        if isinstance(error, StoreError):
            return error
        where = f"the fleet's store {self.shown}"
        if isinstance(error, TimeoutError | self._redis.TimeoutError):
            if not accepted:
                return StoreError(
                    f"{where} can't be reached: no answer within {CONNECT_S:g} s", "timeout", Fault.UNREACHABLE
                )
            hint = "; is its port one for TLS?" if self.address.tls else ""
            return StoreError(f"{where} doesn't answer{hint}", "silent", Fault.AWAY)
        said = str(error)
        for begins, kind, fault, text in _SAID:
            if said.startswith(begins) or getattr(error, "status_code", None) in begins:
                return StoreError(f"{where} {text}", kind, fault)
        if isinstance(error, (self._redis.InvalidResponse, *_NO_PROTOCOL)):
            text = "doesn't speak Redis's protocol; is it the right port?"
            return StoreError(f"{where} {text}", "protocol", Fault.MISTAKE)
        if isinstance(error, self._redis.ResponseError):
            line = " ".join(said.split())[:200]
            return StoreError(f"{where} refuses a command: {line}", "refused command", Fault.MISTAKE)
        return self._unreachable(where, error, connecting)

    def _unreachable(self, where: str, error: Exception, connecting: bool) -> StoreError:
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLError):
                return StoreError(f"{where}: {_tls(cause)}", "tls", Fault.MISTAKE)
            if isinstance(cause, socket.gaierror):
                return StoreError(f"{where} can't be reached: its host name isn't known", "name", Fault.UNREACHABLE)
            if isinstance(cause, ConnectionRefusedError | FileNotFoundError):
                # A firewall between may refuse in the store's name; but then nothing was heard of the store before.
                fault = Fault.AWAY if self._heard else Fault.UNREACHABLE
                return StoreError(f"{where} isn't there: connections are refused", "refused", fault)
            if isinstance(cause, PermissionError):
                return StoreError(f"{where} can't be opened: its socket is for other users", "rights", Fault.MISTAKE)
            if isinstance(cause, OSError) and cause.errno in _NO_ROUTE:
                return StoreError(f"{where} can't be reached: no route to it", "route", Fault.UNREACHABLE)
        if connecting:
            # A tunnel or a load balancer does so that reaches nothing behind it.
            return StoreError(
                f"{where} closes new connections at once; is its port one for TLS (rediss://)?",
                "hung up",
                Fault.UNREACHABLE,
            )
        return StoreError(f"{where} closed the connection", "closed", Fault.AWAY)


class _Messages:
    """The connection for messages, and the task that reads it."""

    def __init__(self, store: FleetStore) -> None:
        self._store = store
        self._channels: dict[str, Callable[[str | None], object]] = {}
        self._connection: AbstractConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed: set[str] = set()
        """Channels to subscribe to or to unsubscribe from."""
        self._sending: asyncio.Task[None] | None = None

    def add(self, channel: str, on_message: Callable[[str | None], object]) -> None:
        self._channels[channel] = on_message
        self._change(channel)
        if self._task is None:
            self._task = asyncio.create_task(self._read_on(), name="fleet-messages")

    def remove(self, channel: str) -> None:
        if self._channels.pop(channel, None) is not None:
            self._change(channel)

    def _change(self, channel: str) -> None:
        self._changed.add(channel)
        if self._connection is not None and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._send_changes(self._connection), name="fleet-subscribe")

    async def aclose(self) -> None:
        for task in (self._task, self._sending):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))

    async def _read_on(self) -> None:
        pause_s = FIRST_RETRY_S
        while True:
            try:
                connection = await self._store.open_connection()
            except StoreError:  # the task that sends commands finds the same, and says it
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
                pause_s = min(2 * pause_s, LONGEST_RETRY_S)
                continue
            pause_s = FIRST_RETRY_S
            self._connection = connection
            try:
                self._changed = set(self._channels)
                await self._send_changes(connection)
                await self._read(connection)
            except _io_errors():
                pass
            finally:
                self._connection = None
                await self._store._drop(connection)
            await asyncio.sleep(FIRST_RETRY_S)

    async def _send_changes(self, connection: AbstractConnection) -> None:
        try:
            while self._changed:
                changed, self._changed = self._changed, set()
                wanted = [channel for channel in changed if channel in self._channels]
                left = [channel for channel in changed if channel not in self._channels]
                for command, channels in (("SUBSCRIBE", wanted), ("UNSUBSCRIBE", left)):
                    if channels:
                        await connection.send_command(command, *channels, check_health=False)
        except _io_errors():
            await self._store._drop(connection)  # so that the reader notices, and subscribes to all again

    async def _read(self, connection: AbstractConnection) -> None:
        asked = False
        while True:
            # With a timeout of its own, redis-py goes on where it stopped at the next call.
            message = await connection.read_response(timeout=QUIET_S)
            if message is None:
                if asked:
                    return
                asked = True
                await connection.send_command("PING", check_health=False)
                continue
            asked = False
            if not isinstance(message, list) or len(message) < 3 or not isinstance(message[1], bytes):
                continue
            kind, channel = message[0], message[1].decode("utf-8", "replace")
            on_message = self._channels.get(channel)
            if on_message is None:
                continue
            try:
                if kind == b"message" and isinstance(message[2], bytes):
                    on_message(message[2].decode("utf-8", "replace"))
                elif kind == b"subscribe":
                    on_message(None)
            except Exception:  # what a part makes of its message must not end the others'
                _log.exception("the fleet: a message of %s could not be used", channel)


def _library() -> ModuleType:
    try:
        import redis.asyncio
        import redis.exceptions
    except ImportError:
        raise UsageError("--fleet needs a library that isn't installed: pip install 'hivemind-tui[fleet]'") from None
    return redis.exceptions


def _io_errors() -> tuple[type[Exception], ...]:
    return (_library().RedisError, OSError, TimeoutError, *_NO_PROTOCOL)


@cache
def _bounded_parser() -> type[Any]:
    """Return redis-py's parser of RESP2 with a bound for a text, which it would read whatever its length."""
    from redis import _parsers
    from redis.exceptions import InvalidResponse

    class BoundedParser(_parsers._AsyncRESP2Parser):
        async def _read(self, length: int) -> bytes:
            if not 0 <= length <= MOST_BYTES:
                raise InvalidResponse(f"a text of {length} bytes")
            found: bytes = await super()._read(length)
            return found

    return BoundedParser


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those from which it came; redis-py raises its own in place of the system's."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


_TELLING = frozenset({"silent", "timeout", "route", "name"})
"""Kinds of errors in connecting that tell whether the store's machine is reached: of these, by `silent` alone."""
_NO_ROUTE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}

_SAID: tuple[tuple[tuple[str, ...], str, Fault, str], ...] = (
    (
        ("HMPROTOCOL",),
        "version",
        Fault.UNREACHABLE,
        "holds the leases of proxies of another version; end those, or update this",
    ),
    (("HMSTATE",), "state", Fault.MISTAKE, "holds something else where a lane's leases belong"),
    (("NOAUTH", "Authentication required"), "password", Fault.AWAY, "wants a password, which its URL doesn't hold"),
    (("WRONGPASS", "invalid password"), "password", Fault.MISTAKE, "refuses the user or password in its URL"),
    (
        ("AUTH <password> called without any password", "Client sent AUTH, but no password is set"),
        "password",
        Fault.MISTAKE,
        "has no password, but its URL names one",
    ),
    (
        ("NOPERM",),
        "rights",
        Fault.MISTAKE,
        "refuses a command: its user may not do all that a fleet needs (see docs/fleet.md)",
    ),
    (("READONLY",), "read only", Fault.AWAY, "is a replica, which takes no writes; name the primary, or promote it"),
    (("LOADING",), "loading", Fault.AWAY, "is starting, and reads its data"),
    (("MASTERDOWN",), "read only", Fault.AWAY, "is a replica that has lost its primary"),
    (("OOM",), "memory", Fault.AWAY, "has no memory left (maxmemory)"),
    (("MISCONF",), "disk", Fault.AWAY, "takes no writes because it can't save to its disk (MISCONF)"),
    (("NOREPLICAS",), "replicas", Fault.AWAY, "takes no writes because it has too few replicas (NOREPLICAS)"),
    (("BUSY",), "busy", Fault.AWAY, "is busy with a script that doesn't end (BUSY)"),
    (("CLUSTERDOWN",), "cluster", Fault.AWAY, "is a cluster that is down (CLUSTERDOWN)"),
    (
        ("MOVED", "CROSSSLOT"),
        "cluster",
        Fault.MISTAKE,
        "is part of a cluster, which isn't supported; use a single primary",
    ),
    (("max number of clients reached",), "clients", Fault.UNREACHABLE, "takes no more connections (maxclients)"),
    (("DB index is out of range", "invalid DB index"), "database", Fault.MISTAKE, "has no database of that number"),
    (
        ("SELECT is not allowed in cluster mode",),
        "database",
        Fault.MISTAKE,
        "is a cluster, which has no numbered databases",
    ),
)
"""How an error begins, or its code, in all versions; its kind; whom it affects; and what it means for people."""


def _tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message or "not valid"
        return f"its certificate can't be trusted ({reason}); a CA of your own is named with --ca-file"
    return "no TLS connection: is it a rediss:// port?"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


ALLOCATOR = Script.of(resources.files("hivemind.fleet").joinpath("allocator.lua").read_text("utf-8"))
"""Divides what a lane has among the members. `tests/fleet/model/allocator.py` is the same in Python."""

BUDGETS = Script.of(resources.files("hivemind.fleet").joinpath("budgets.lua").read_text("utf-8"))
"""Divides what is left of budgets. `tests/fleet/model/budgets.py` is the same in Python."""
