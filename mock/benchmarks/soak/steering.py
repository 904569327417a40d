"""What an operator does to a proxy meanwhile: everything, all the time, and takes it back."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence

from hivemind.control.client import ControlClient, ControlError
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind_tui.sources.remote import attached

WHO = "soak"
_KNOBS: dict[str, tuple[float, ...]] = {
    "aimd.alpha": (1, 2, 4),
    "aimd.beta": (0.5, 0.7, 0.9),
    "aimd.floor": (12, 16),
    "aimd.latency_target_s": (1, 2, 5),
    "max_concurrency": (0, 40, 64),
    "circuit.threshold": (0.5, 0.7),
    "circuit.window": (20, 50),
    "circuit.cooldown_s": (0.5, 1),
    "rpm": (0, 60_000),
    "tpm": (0, 100_000_000),
    "retry.base_s": (0.02, 0.05),
    "retry.max_s": (1, 2),
    "retry.budget_ratio": (1, 2),
}
STOP_ECHO_S = 1.0
"""So long after a stop was taken back its agent's requests may still end by it."""


class Steering:
    """The operator of one proxy."""

    def __init__(self, client: ControlClient, token: str, agents: Sequence[str], rng: random.Random) -> None:
        self.done: Counter[str] = Counter()
        """What was done, by its name."""
        self.refused: list[str] = []
        self._client = client
        self._token = token
        self._agents = agents
        self._rng = rng
        self._stopped: dict[str, float] = {}
        """When each agent's stop is forgotten; `inf` while it is stopped."""
        self._batches = 0

    def is_stopped(self, agent: str) -> bool:
        """Return whether the operator may just have ended this agent's requests."""
        return self._stopped.get(agent, 0.0) > time.monotonic()

    async def work(self, every_s: float) -> None:
        """Do one thing after the other until cancelled, and take back what isn't over."""
        acts = (
            *(self._tune,) * 6,
            *(self._prioritise, self._budget, self._batch, self._attach) * 2,
            *(self._pin, self._circuit, self._pause, self._pause_agent, self._stop, self._drain, self._pool),
        )
        try:
            while True:
                await asyncio.sleep(self._rng.uniform(0.5, 1.5) * every_s)
                act = self._rng.choice(acts)
                await act()
                self.done[act.__name__.removeprefix("_")] += 1
        finally:
            await asyncio.shield(self._restore())

    async def _restore(self) -> None:
        for command in (
            cmd.PauseAdmissions(False),
            cmd.Drain(False),
            cmd.SetCircuit("auto"),
            cmd.PinLevel(None),
            cmd.SetBudget(None),
        ):
            await self._do(command)
        for agent in self._agents:
            if agent in self._stopped:
                await self._do(cmd.StopAgent(agent, False))

    async def _do(self, command: cmd.Command) -> None:
        # A command may be refused, such as one about an agent that hasn't asked for anything yet.
        try:
            await self._client.command(command, WHO)
        except cmd.Rejected as error:
            if len(self.refused) < 20:
                self.refused.append(f"{type(command).__name__}: {error}")
        except ControlError:
            # The proxy may take its time on a machine that others use too; what changes something is said again.
            await asyncio.sleep(1.0)
            await self._client.command(command, WHO)

    @contextlib.asynccontextmanager
    async def _for_a_while(self, begin: cmd.Command, end: cmd.Command, most_s: float) -> AsyncIterator[None]:
        await self._do(begin)
        try:
            yield
            await asyncio.sleep(self._rng.uniform(0.1, most_s))
        finally:
            await asyncio.shield(self._do(end))

    def _agent(self) -> str:
        return self._rng.choice(self._agents)

    async def _tune(self) -> None:
        knob = self._rng.choice(list(_KNOBS))
        await self._do(cmd.Tune(knob, self._rng.choice(_KNOBS[knob])))

    async def _prioritise(self) -> None:
        await self._do(cmd.SetPriority(self._agent(), self._rng.choice(list(Priority))))
        await self._do(cmd.BoostAgent(self._agent(), 5.0))

    async def _pin(self) -> None:
        async with self._for_a_while(cmd.PinLevel(10.0), cmd.PinLevel(None), 3.0):
            pass

    async def _circuit(self) -> None:
        for mode in ("open", "probe", "closed"):
            async with self._for_a_while(cmd.SetCircuit(mode), cmd.SetCircuit("auto"), 0.7):
                pass

    async def _pause(self) -> None:
        async with self._for_a_while(cmd.PauseAdmissions(True), cmd.PauseAdmissions(False), 1.0):
            pass

    async def _pause_agent(self) -> None:
        agent = self._agent()
        async with self._for_a_while(cmd.PauseAgent(agent, True), cmd.PauseAgent(agent, False), 3.0):
            pass

    async def _stop(self) -> None:
        agent = self._agent()
        self._stopped[agent] = float("inf")
        async with self._for_a_while(cmd.StopAgent(agent, True), cmd.StopAgent(agent, False), 2.0):
            pass
        self._stopped[agent] = time.monotonic() + STOP_ECHO_S

    async def _drain(self) -> None:
        async with self._for_a_while(cmd.Drain(True), cmd.Drain(False), 0.5):
            pass

    async def _budget(self) -> None:
        agent = self._agent()
        begin, end = cmd.SetBudget(agent, 1, per="ever"), cmd.SetBudget(agent)
        async with self._for_a_while(begin, end, 2.0):
            await asyncio.sleep(self._rng.random())
            await self._do(cmd.SetBudget(agent, 10**12, per=self._rng.choice(("run", "day", "ever"))))

    async def _pool(self) -> None:
        async with self._for_a_while(cmd.SetBudget(None, 1, per="ever"), cmd.SetBudget(None), 0.5):
            pass

    async def _batch(self) -> None:
        """Submit a batch of tasks, report on each, and forget it."""
        self._batches += 1
        batch = f"soak{self._batches}"
        ids = [f"{batch}.t{number}" for number in range(6)]
        specs = [TaskSpec(each, after=tuple(ids[:number][-1:]), batch=batch) for number, each in enumerate(ids)]
        await self._do(cmd.SubmitTasks(tuple(specs)))
        for number, each in enumerate(ids):
            await self._do(cmd.ClaimTask(each))
            await asyncio.sleep(self._rng.uniform(0, 0.3))
            await self._do(cmd.FinishTask(each, number < 5))
        await self._do(cmd.ForgetTasks(batch))

    async def _attach(self) -> None:
        """Look as an attached control room does, and go away."""
        url = self._client.url
        environ = {"HIVEMIND_CONTROL_TOKEN": self._token, "USER": WHO}
        async with attached(url, environ) as source:
            until = time.monotonic() + self._rng.uniform(1, 6)
            while time.monotonic() < until:
                source.snapshot()
                for request in source.requests()[:1]:
                    with contextlib.suppress(cmd.Rejected):
                        await source.detail(request.ticket)
                await asyncio.sleep(0.25)
