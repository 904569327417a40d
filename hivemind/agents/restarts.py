"""An agent's command that is started again when it crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hivemind.agents.resumption import resumption_in
from hivemind.agents.run import AgentCommand, Foreground, RunOutcome, run_agent
from hivemind.agents.session import Say, Session
from hivemind.records import replace
from hivemind.text.humanise import exit_text, short_duration

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
    started again.

    Raises: as :func:`run_agent`.
    """
    seconds = 0.0
    for number in range(restarts + 1):
        outcome = await run_agent(session, job, environ=environ, say=say, foreground=foreground)
        seconds += outcome.seconds
        if number == restarts or not _crashed(outcome, foreground):
            break
        how = exit_text(outcome.exit_code)
        say(f"{outcome.agent}: {how}; it starts again in {short_duration(delay_s)} ({number + 1} of {restarts})")
        kept = outcome.usage.checkpoint if outcome.usage is not None else None
        resumption = await asyncio.to_thread(resumption_in, session.way.state_dir, kept)
        await asyncio.sleep(delay_s)
        delay_s = min(LONGEST_DELAY_S, delay_s * 2)
        # What an operator changed meanwhile holds: priority and budget are set at the first start only.
        job = replace(
            job, name=outcome.agent, priority=None, budget=None, covers=None, resumed=True, resumption=resumption
        )
    return replace(outcome, seconds=seconds, restarts=number)


def _crashed(outcome: RunOutcome, foreground: Foreground) -> bool:
    used = outcome.usage
    held = used is not None and (used.stopped or used.used_up is not None)
    return outcome.exit_code != 0 and not foreground.passed_on and not held
