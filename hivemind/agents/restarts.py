"""An agent's command that is started again when it crashes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from hivemind.agents.resumption import resumption_in
from hivemind.agents.run import AgentCommand, Foreground, RunOutcome, run_agent
from hivemind.agents.session import Say, Session
from hivemind.records import replace
from hivemind.text.humanise import exit_text, moment, short_duration

FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 30.0
"""The pause before a restart, which doubles with each."""


async def run_with_restarts(
    session: Session,
    job: AgentCommand,
    restarts: int,
    *,
    environ: Mapping[str, str],
    say: Say,
    foreground: Foreground,
    delay_s: float = FIRST_DELAY_S,
) -> RunOutcome:
    """Run the command as :func:`run_agent` does, and at most `restarts` times more while it crashes. Return the last
    outcome, with the time of all.

    A client whose session is known continues it. A command that an operator, a signal or a used-up budget ended isn't
    started again. One that ended with an error because a plan's window is used up is paused until that is whole again,
    which doesn't count.

    Raises: as :func:`run_agent`.
    """
    seconds, number = 0.0, 0
    while True:
        outcome = await run_agent(session, job, environ=environ, say=say, foreground=foreground)
        seconds += outcome.seconds
        whole_at = None if outcome.usage is None else outcome.usage.whole_at
        if not _crashed(outcome, foreground) or (number == restarts and whole_at is None):
            break
        how, pause_s = exit_text(outcome.exit_code), delay_s
        if whole_at is not None:
            when = moment(time.time(), whole_at)
            say(f"{outcome.agent}: {how}, because a plan's window is used up; it starts again at {when}")
            pause_s = max(0.0, whole_at - time.time())
        else:
            number += 1
            say(f"{outcome.agent}: {how}; it starts again in {short_duration(delay_s)} ({number} of {restarts})")
            delay_s = min(LONGEST_DELAY_S, delay_s * 2)
        kept = outcome.usage.checkpoint if outcome.usage is not None else None
        resumption = await asyncio.to_thread(resumption_in, session.way.state_dir, kept)
        await asyncio.sleep(pause_s)
        # What an operator changed meanwhile holds: priority and budget are set at the first start only.
        job = replace(
            job, name=outcome.agent, priority=None, budget=None, covers=None, resumed=True, resumption=resumption
        )
    return replace(outcome, seconds=seconds, restarts=number)


def _crashed(outcome: RunOutcome, foreground: Foreground) -> bool:
    used = outcome.usage
    held = used is not None and (used.stopped or used.used_up is not None)
    return outcome.exit_code != 0 and not foreground.passed_on and not held
