"""What runs beside a worker's proxy: its answers to the first worker, and what answers its own pages for all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

from hivemind.control.codec import to_plain
from hivemind.host.front import Front
from hivemind.host.proxy import Proxy
from hivemind.host.worker import Worker
from hivemind.host.workers import frames
from hivemind.host.workers.answers import Answers
from hivemind.host.workers.group import Group
from hivemind.host.workers.hop import Hop, serve_hop
from hivemind.scheduler.commands import ClaimTask, Command
from hivemind.scheduler.events import TaskChanged
from hivemind.world.snapshot import Line

_log = logging.getLogger(__name__)

TOLD_WITHIN_S = 10.0
"""Longest wait for the first worker, which may have to be started again."""


@contextlib.asynccontextmanager
async def attended(worker: Worker, proxy: Proxy) -> AsyncIterator[None]:
    """Have the first worker know of this one, and answer for it; on the running loop, once the proxy has begun."""
    answers = Answers(proxy, worker)
    front: Front
    if worker.number == 1:
        front = group = Group(proxy, worker, answers)
        proxy.engine.on_command = group.mirror
    else:
        proxy.watch.leave_shared_alerts()
        front = Hop(worker.socket(1))
        Reports(proxy, worker, answers)

    async def handle(first: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if proxy.processes.runs.is_process_of_any(frames.sender(writer)):
            _log.warning("a run's process tried to speak for a worker")
            return
        if "page" in first:
            await serve_hop(front.serve, first, reader, writer)
        else:
            await answers.serve(first, reader, writer)

    server = await frames.serve(worker.socket(worker.number), handle)
    proxy.front = front
    try:
        if worker.number > 1:
            await _told(answers)
        yield
    finally:
        await front.aclose()
        server.close()


async def _told(answers: Answers) -> None:
    """Wait until the first worker has told what holds, but serve without it rather than not at all."""
    try:
        await asyncio.wait_for(answers.told.wait(), TOLD_WITHIN_S)
    except TimeoutError:
        _log.warning("the first worker doesn't tell what was decided before, so nothing of it holds here yet")


class Reports:
    """Tells the first worker of what happened here that all are to know: commands that came through the fleet's store,
    and tasks that an agent began by its first request."""

    def __init__(self, proxy: Proxy, worker: Worker, answers: Answers) -> None:
        self._first = worker.socket(1)
        self._answers = answers
        self._log_line = proxy.engine.world.on_line
        self._tasks: set[asyncio.Task[None]] = set()
        proxy.engine.on_command = self._commanded
        proxy.engine.world.on_line = self._log
        proxy.engine.watched[TaskChanged] = self._task_changed

    def _log(self, line: Line) -> None:
        if not self._answers.mirroring:  # the first worker logs it
            self._log_line(line)

    def _commanded(self, command: Command, who: str) -> None:
        if not self._answers.mirroring:
            self._tell(command, who)

    def _task_changed(self, event: TaskChanged) -> None:
        if event.state == "running" and not self._answers.mirroring:
            self._tell(ClaimTask(event.task), "agent")

    def _tell(self, command: Command, who: str) -> None:
        task = asyncio.create_task(self._send(command, who), name="tell the first worker")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, command: Command, who: str) -> None:
        try:
            channel = await frames.Channel.to(self._first)
        except OSError:
            return  # it begins anew, and asks nobody
        answers = asyncio.create_task(channel.run())
        try:
            question = {"ask": "apply", "name": type(command).__name__, "arguments": to_plain(command), "who": who}
            async with asyncio.timeout(TOLD_WITHIN_S):
                await channel.ask(question)
        except (frames.Gone, TimeoutError):
            pass
        finally:
            answers.cancel()
            await asyncio.wait((answers,))
