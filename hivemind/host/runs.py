"""The runs that are live: their tokens, and the processes that are theirs.

A token is an HMAC of agent and runner, so nothing is stored and a restarted proxy takes it. Where a request's process
can't be found it is refused while a run is live, or a sender could end before it is looked at.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from hivemind.agent_names import fold
from hivemind.control.proof import RUN_PREFIX
from hivemind.control.rights import OPERATOR, Denied, Principal
from hivemind.host import senders
from hivemind.proxy.cycle import EXTENSION
from hivemind.store.atomic import written_whole
from hivemind.store.locks import open_regular

_log = logging.getLogger(__name__)

_KEY_BYTES = 32


class _Run(Struct):
    agent: str
    tag: str | None
    """Of the runner; None: it ran when the proxy was started, and its runner hasn't come back yet."""
    root: int | None = None
    """The process whose descendants are its processes."""


class Runs:
    """The live runs of one proxy. `key_file` keeps the key of their tokens for the next proxy; None: it isn't kept."""

    def __init__(self, key_file: Path | None, is_above: Callable[[str, str], bool]) -> None:
        """`is_above` returns whether the first agent is the second one, or an ancestor of it."""
        self._key = _key(key_file)
        self._is_above = is_above
        self._live: dict[str, _Run] = {}
        self._roots_file = None if key_file is None else key_file.with_suffix(".runs")
        """The processes of live runs, for the next proxy: it must know them before their runners come back."""
        self._roots_kept = _roots_in(self._roots_file)
        self._seen: WeakKeyDictionary[Any, set[int]] = WeakKeyDictionary()
        """Results by connection, since the same process goes on using it."""
        self.looks = senders.available()
        """Whether the process that sent a request is looked at."""

    # --- Runs -----------------------------------------------------------------------------------------------------

    def began(self, agent: str, runner: str, process: str) -> str:
        """Note that an agent's run is live, and return its token. `process` is as of
        :attr:`.PlaceRequest.process`."""
        run = self._live.setdefault(fold(agent), _Run(agent, None))
        run.tag = blake2b(runner.encode("utf-8", "replace"), digest_size=6, person=b"hivemind-runner").hexdigest()
        if process and (root := self._root(process)) != run.root:
            run.root = root
            self._seen.clear()
            self._keep_roots()
        return self._token(agent, run.tag)

    def kept(self, agent: str) -> None:
        """Note an agent that ran when an earlier proxy ended."""
        self._live[fold(agent)] = _Run(agent, None, self._root(self._roots_kept.get(agent, "")))

    def ended(self, agent: str) -> None:
        """Note the end of an agent's run: its token isn't valid any more."""
        run = self._live.pop(fold(agent), None)
        if run is not None and run.root is not None:
            self._seen.clear()
            self._keep_roots()

    def within(self, run: str, process: str) -> bool:
        """Return whether a process, as of :attr:`.PlaceRequest.process`, belongs to a run or to one that it started."""
        pid = self._root(process)
        root = None if pid is None else senders.nearest(pid, self._roots())
        return any(self._is_above(run, each) for each in self._of(set() if root is None else {root}))

    def _root(self, process: str) -> int | None:
        number = process.partition(" ")[0]
        known = self.looks and number.isdecimal() and senders.identity(int(number)) == process
        return int(number) if known else None

    def _keep_roots(self) -> None:
        if self._roots_file is None:
            return
        roots = {run.agent: senders.identity(run.root) for run in self._live.values() if run.root is not None}
        try:
            with written_whole(self._roots_file) as draft:
                draft.write(msgspec.json.encode(roots))
        except OSError as error:
            _log.warning("%s can't be written (%s)", self._roots_file, error.strerror)

    def _roots(self) -> set[int]:
        return {run.root for run in self._live.values() if run.root is not None}

    def _of(self, roots: set[int]) -> set[str]:
        return {run.agent for run in self._live.values() if run.root in roots}

    # --- Requests -------------------------------------------------------------------------------------------------

    async def principal(self, shown: str, control_token: str, scope: Mapping[str, Any]) -> Principal | None:
        """Return whose a request is that shows this token; None: the token isn't valid, or the sender has left.

        Raises: Denied: a token is shown that isn't the sender's, and which run's it is isn't clear.
        """
        if hmac.compare_digest(shown.encode("latin-1"), control_token.encode()):
            named = None
        elif (named := self.agent_of(shown)) is None:
            return None
        if (agents := await self._senders(scope)) is None:
            return None
        if not agents:
            return OPERATOR if named is None else Principal(named)
        if named is not None and any(self._is_above(each, named) for each in agents):
            return Principal(named)
        if len(agents) > 1:
            raise Denied("the request comes from one of several runs of one runner: send it with that run's own token")
        return Principal(next(iter(agents)))

    def token_of(self, public: str) -> str:
        """Return the token whose first parts, `NAME.TAG`, these are; whether its run goes on or not.

        Raises: ValueError: no token begins so.
        """
        name, _, tag = public.partition(".")
        return self._token(base64.urlsafe_b64decode(name + "==").decode(), tag)

    def agent_of(self, token: str) -> str | None:
        """Return the agent of a run's token; None: it isn't one, or the run has ended."""
        name, _, rest = token.removeprefix(RUN_PREFIX).partition(".")
        tag = rest.partition(".")[0]
        try:
            agent = base64.urlsafe_b64decode(name + "==").decode()
        except ValueError:
            return None
        run = self._live.get(fold(agent))
        if run is None or run.tag not in (None, tag):
            return None
        return run.agent if hmac.compare_digest(token.encode(), self._token(agent, tag).encode()) else None

    async def _senders(self, scope: Mapping[str, Any]) -> set[str] | None:
        """Return the runs that the sender's process is a part of; None: it doesn't wait for the answer any more.

        Raises: Denied: it can't be found.
        """
        roots, client, server = self._roots(), scope.get("client"), scope.get("server")
        if not roots or client is None or server is None:
            return set()
        cycle = scope.get("extensions", {}).get(EXTENSION)
        connection = None if cycle is None else cycle.connection
        found = None if connection is None else self._seen.get(connection)
        if found is None:
            try:
                found = await asyncio.to_thread(senders.roots_of, tuple(client), tuple(server), roots)
            except senders.Gone:
                if cycle is not None and cycle.disconnected:
                    return None  # such as a runner that was ended, or whose patience was over
                text = "the process that sent this can't be found, so it isn't known whether it belongs to a run"
                raise Denied(text) from None
            if connection is not None:
                self._seen[connection] = found
        return self._of(found)

    def _token(self, agent: str, tag: str) -> str:
        """Return `hmrun-NAME.TAG.MAC`: it names its agent and its runner, so that no token has to be stored."""
        name = base64.urlsafe_b64encode(agent.encode()).rstrip(b"=").decode()
        mac = blake2b(f"{fold(agent)}\0{tag}".encode(), key=self._key, digest_size=20, person=b"hivemind-run")
        return f"{RUN_PREFIX}{name}.{tag}.{mac.hexdigest()}"


def _roots_in(file: Path | None) -> dict[str, str]:
    try:
        if file is None:
            return {}
        with open_regular(file) as opened:
            return msgspec.json.decode(opened.read(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _key(file: Path | None) -> bytes:
    """Return the key in the file, or a new one, which is written there if that is possible."""
    fresh = secrets.token_bytes(_KEY_BYTES)
    if file is None:
        return fresh
    try:
        with open_regular(file) as opened:
            key = opened.read()
        if len(key) == _KEY_BYTES and not os.stat(file).st_mode & 0o077:
            return key
    except FileNotFoundError:
        pass
    except OSError as error:
        _log.warning("%s can't be read (%s), so the tokens of runs end with this proxy", file, error.strerror)
        return fresh
    try:
        with written_whole(file) as draft:
            draft.write(fresh)
    except OSError as error:
        _log.warning("%s can't be written (%s), so the tokens of runs end with this proxy", file, error.strerror)
    return fresh
