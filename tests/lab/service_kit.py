"""A provider whose answers take as long as is asked for, and agents that use it."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lab.kit import LANE

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority, Usage


@dataclass(slots=True)
class _Sent:
    at: float
    ticket: int
    agent: int
    usage: Usage
    left: float
    first: float
    first_at: float | None = None


def run(
    work: Callable[[Usage], float] = lambda usage: 0.5 + 0.02 * usage.output_tokens,
    *,
    speed: Callable[[int], float] = lambda n: 1.0,
    drift: Callable[[float], float] = lambda at: 1.0,
    places: int = 10**6,
    agents: int = 8,
    turns: int = 20,
    think_s: float = 2.0,
    sigma: float = 0.1,
    seed: int = 1,
    step_s: float = 0.5,
) -> Iterator[ev.Event]:
    """Yield the events of a run in which agents take turns with thinking.

    Sizes, luck and times to think are those of the seed. With n being answered, each of them is at
    `speed(n) * drift(now)`; of more than `places` the last wait.
    """
    rng = random.Random(seed)
    coming = [(rng.random() * think_s, agent, 0) for agent in range(agents)]
    heapq.heapify(coming)
    sent: list[_Sent] = []
    now, ticket, left = 0.0, 0, agents * turns
    turn_of: dict[int, int] = {}
    while left:
        served = sent[:places]
        pace = speed(max(1, len(served))) * drift(now)
        goals = [each.first if each.first_at is None else each.left for each in served]
        until = min([math.inf, *(now + goal / pace for goal in goals), now + step_s])
        if coming:
            until = min(until, coming[0][0])
        done = (until - now) * pace
        for each in served:
            each.left -= done
            each.first -= done
        now = until
        for each in served:
            name = f"a{each.agent}"
            if each.first_at is None and each.first <= 1e-9:
                each.first_at = now
                yield ev.FirstContent(now, each.ticket, name, LANE, now - each.at)
            if each.left <= 1e-9:
                left -= 1
                sent.remove(each)
                yield ev.Finished(now, each.ticket, name, LANE, "m", 200, 1, each.usage, now - each.at)
                turn = turn_of[each.agent] = turn_of.get(each.agent, 0) + 1
                if turn < turns:
                    thinks_s = think_s * random.Random(f"{seed} {each.agent} {turn}").uniform(0.2, 1.8)
                    heapq.heappush(coming, (now + thinks_s, each.agent, turn))
        while coming and coming[0][0] <= now:
            _, agent, turn = heapq.heappop(coming)
            ticket += 1
            rng = random.Random(f"{seed} {agent} {turn} answer")
            usage = Usage(rng.randint(100, 3000), 0, 0, rng.randint(10, 400))
            whole = work(usage) * math.exp(rng.gauss(0, sigma))
            sent.append(_Sent(now, ticket, agent, usage, whole, 0.3 * whole))
            name = f"a{agent}"
            yield ev.Arrived(
                now, ticket, name, LANE, "m", "m", Priority.NORMAL, True, usage.input_tokens, 50,
                size_chars=4 * usage.input_tokens,
            )  # fmt: skip
            yield ev.Granted(now, ticket, name, LANE, 1, 0.0)
