"""Views of agents are kept, and made anew only where more than times changed."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from world.histories import AGENTS, LANES, History, price, randomly
from world.kit import arrived, budget, finished, granted, hold, state, told

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage
from hivemind.world.agents import AgentFold


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_equals_what_is_made_anew(seed: int) -> None:
    """After any events, of which some were lost, looked at soon, much later, and even at an earlier moment."""
    draw, history, read = Random(seed), History(), 0
    world, anew = told(), told()
    for turn in range(50):
        for each in (world, anew) if turn == 25 else ():
            each.price_by(price)  # for what was used before, too
        for step in randomly(draw.randrange(10**6), draw.randrange(1, 8)):
            history.step(*step)
        now, ticket = history.hands.now, draw.choice([*world._tickets, 0])
        about = ticket, world._tickets[ticket].arrived.agent if ticket else draw.choice(AGENTS), LANES[0]
        others = (
            ev.WorkLeft(now, *about),
            ev.Abandoned(now, *about, in_flight=True),
            ev.PromptCached(now, *about, "m", "waited", 500),
            ev.Finished(now, 0, *about[1:], "m", 200, 1, None, 1.0),
            ev.Finished(now, 0, *about[1:], "m", 200, 0, Usage(7), 1.0),
            ev.Sampled(now, (), (budget(None, used_tokens=draw.choice((0, 5_000))),), partial=True),
            ev.Sampled(now, (state(lane=LANES[0], upcoming=(hold(ticket, "pace", 9.0),)),), partial=True),
        )
        for event in (*history.hands.log[read:], *([draw.choice(others)] if draw.random() < 0.6 else [])):
            world.apply(event)
            anew.apply(event)
        read = len(history.hands.log)
        for agent in anew._agents.values():
            agent.kept = None
        at = now + draw.choice((*(0.0, 0.1, 0.4) * 6, 40.0, 700.0, 4000.0))
        assert world.snapshot(at) == anew.snapshot(at)


def test_a_view_is_made_where_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hundreds of agents that rest or stream that of the one that asks again."""
    sent = [each for n in range(400) for each in (arrived(n, f"a{n}"), granted(n, f"a{n}"))]
    world, made, view = told(*sent, *(finished(n, f"a{n}") for n in range(300))), list[str](), AgentFold.view

    def counted(agent: AgentFold, *args: Any, **about: Any) -> Any:
        made.append(agent.name)
        return view(agent, *args, **about)

    monkeypatch.setattr(AgentFold, "view", counted)
    world.snapshot(5.0)
    assert len(made) == 400
    world.apply(arrived(400, "a7", 6.0))
    for at in (6.0, 7.0, 13.0):  # the last one in another step of their activity
        world.snapshot(at)
    assert made[400:] == ["a7"]
