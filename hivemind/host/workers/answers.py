"""What a worker answers to the first one: its part of what is shown, and commands that it carries out too."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from hivemind import __version__
from hivemind import api_types as api
from hivemind.control.codec import snapshot_part
from hivemind.control.parsing import command_from
from hivemind.host.proxy import Proxy
from hivemind.host.worker import Worker
from hivemind.host.workers import frames
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.tasks import SavedTask
from hivemind.world.fleet import Member

OK: Mapping[str, Any] = {}
_BEFORE = "first worker"
"""Author, in a worker's log, of what was decided before it began."""
_tasks_of = msgspec.json.Decoder(tuple[SavedTask, ...]).decode


class Answers:
    """The questions by their names. Data is JSON as in the control API."""

    def __init__(self, proxy: Proxy, worker: Worker) -> None:
        self._proxy = proxy
        self._worker = worker
        self._process = secrets.token_hex(8)
        self._began = time.time()
        self.told = asyncio.Event()
        """Set once the first worker has told what was decided before."""
        self.mirroring = False
        """A command is being carried out that another worker knows of."""
        self._questions: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
            "snapshot": self._snapshot,
            "requests": self._requests,
            "detail": self._detail,
            "budgets": self._budgets,
            "used": self._used,
            "health": self._health,
            "standing": self._standing,
            "apply": self._apply,
            "bind": self._bind,
        }

    async def serve(self, first: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions that come over one connection."""
        question = first
        while question is not None:
            writer.write(frames.packed(self._questions[question["ask"]](question)))
            await writer.drain()
            question = await frames.receive(reader)

    def member(self) -> Member:
        """Return what this worker tells of itself."""
        label = f"worker {self._worker.number}"
        if self._proxy.fleet_part is not None:
            return replace(self._proxy.fleet_part.described(self._proxy), label=label)
        return Member(
            self._process,
            platform.node() or "this machine",
            os.getpid(),
            __version__,
            0,
            self._proxy.address,
            self._began,
            label=label,
        )

    def _snapshot(self, question: Mapping[str, Any]) -> Any:
        after = question["after"] if question["process"] == self._process else None
        part = snapshot_part(self._proxy.snapshot(), self._process, after)
        return {"part": msgspec.json.encode(part), "member": msgspec.json.encode(self.member())}

    def _requests(self, question: Mapping[str, Any]) -> Any:
        found = self._proxy.requests(question["since"] if question["process"] == self._process else 0)
        part = api.RequestsPart(self._process, __version__, found.revision, found.oldest, found.changed)
        return {"part": msgspec.json.encode(part)}

    def _detail(self, question: Mapping[str, Any]) -> Any:
        found = self._proxy.detail(question["ticket"]) if question["process"] == self._process else None
        return {"detail": None if found is None else msgspec.json.encode(found)}

    def _budgets(self, question: Mapping[str, Any]) -> Any:
        try:
            return {"budgets": msgspec.json.encode(self._proxy.budgets(question["agent"]))}
        except Rejected:
            return {"budgets": None}  # the agent isn't known here

    def _used(self, question: Mapping[str, Any]) -> Any:
        agent = self._proxy.engine.agent(question["agent"])
        spent = None if agent is None else agent.tree.used("run")
        requests, elsewhere = self._proxy.engine.traffic(question["agent"], question["client"])
        return {
            "used": None if spent is None else [spent.tokens, spent.dollars, spent.unpriced, spent.estimated],
            "requests": requests,
            "elsewhere": elsewhere,
        }

    def _health(self, _: Mapping[str, Any]) -> Any:
        mode, uptime_s, alarms = self._proxy.health()
        state = self._proxy.fleet_state()
        return {"mode": mode, "uptime_s": uptime_s, "alarms": msgspec.json.encode(alarms), "fleet": state}

    def _standing(self, question: Mapping[str, Any]) -> Any:
        for name, arguments in question["commands"]:
            self._carry_out(name, arguments, _BEFORE)
        if not self._proxy.engine.tasks:
            self._proxy.engine.take_tasks(_tasks_of(question["tasks"]))
        self.told.set()
        return self._bind(question)

    def _apply(self, question: Mapping[str, Any]) -> Any:
        if "bound" in question:
            self._bind(question)
        rejected = self._carry_out(question["name"], question["arguments"], question["who"])
        return {"rejected": rejected} if rejected else OK

    def _carry_out(self, name: str, arguments: Mapping[str, Any], who: str) -> str:
        """Carry out a command; return why it can't be, empty if it was."""
        self.mirroring = True
        try:
            self._proxy.engine.mirror(command_from(name, arguments), who)
        except Rejected as error:
            return str(error)
        finally:
            self.mirroring = False
        return ""

    def _bind(self, question: Mapping[str, Any]) -> Any:
        self._proxy.claims.bind_only(question["bound"])
        return OK
