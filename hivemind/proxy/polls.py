"""Replies to requests that cost nothing, as far as they tell what others cost: work in the background, and batches."""

from __future__ import annotations

from collections.abc import Mapping

from hivemind.providers.base import Tap, TapState, WorkKind
from hivemind.providers.results import polled, tap_of_poll
from hivemind.proxy.asgi import StepRunner
from hivemind.proxy.engine import Engine
from hivemind.scheduler.types import Usage
from hivemind.upstream.base import UpstreamResponse
from hivemind.wire.call import Call, scheduler_request


class Poll:
    """Reads beside one reply, if it may tell anything."""

    def __init__(self, call: Call, response: UpstreamResponse, engine: Engine, steps: StepRunner) -> None:
        self._call = call
        self._engine = engine
        self._steps = steps
        self._tap: Tap | None = None
        kind, name = polled(call.head.path)
        self._name = call.work_name(name)
        known = engine.ask_for_work(self._name)
        if call.head.method == b"DELETE":
            if known and response.status < 300:
                self._end("background", {})
        elif response.status == 200 and (known or kind):
            self._tap = tap_of_poll(kind, name, response.headers)

    async def read(self, data: bytes) -> None:
        """Read the next bytes of the reply."""
        if self._tap is not None:
            self._engine.ask_for_work(self._name)
            if (rest := self._tap.feed(data)) is not None:
                await self._steps.run(rest)

    async def end(self) -> None:
        """Book what the reply states, now that it has come whole."""
        tap = self._tap
        if tap is None:
            return
        if (rest := tap.end()) is not None:
            await self._steps.run(rest)
        for state in tap.state.listed or (tap.state,):
            self._book(state, sure=tap.state.listed is None)

    def _book(self, state: TapState, *, sure: bool) -> None:
        """Book what a reply states of one piece of work. Where it isn't `sure`, as in a list, others' isn't booked."""
        work, used = state.work, state.used or ({} if state.usage is None else {"": state.usage})
        if work is None or work.goes_on:
            return
        name = self._call.work_name(work.name)
        if self._engine.ask_for_work(name) or used:
            self._end(work.kind, used, name, tuple(map(self._call.work_name, work.names)), sure=sure and work.sure)

    def _end(
        self,
        kind: WorkKind,
        used: Mapping[str, Usage],
        name: str = "",
        names: tuple[str, ...] = (),
        *,
        sure: bool = True,
    ) -> None:
        head = self._call.head
        self._engine.open_lane(head.lane, head.route.lane)
        self._engine.end_work(name or self._name, scheduler_request(self._call), kind, used, names, sure=sure)
