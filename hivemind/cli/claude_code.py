"""The program of Claude Code's plugin, `python -P -m hivemind.cli.claude_code EVENT`: answers its hooks and command.

It ends with 0 whatever happens, and where no proxy answers hooks print nothing: a hook must not break a session.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from hivemind.api_types import SnapshotPart
    from hivemind.cli.client import ProxyClient
    from hivemind.scheduler.events import BudgetState, LaneState

_BASE_VARIABLE = "ANTHROPIC_BASE_URL"
_WITHIN_S = 1.0
"""For the connection, and again for the answer."""
_WARN_FROM = 0.85
_NO_PROXY = "No HiveMind proxy answers for this session: it runs none, or the session doesn't go through it."


@dataclass(frozen=True, slots=True)
class _Session:
    """The session's proxy, and what it says."""

    proxy: ProxyClient
    part: SnapshotPart
    agent: str | None
    """None: the base URL names none, so the proxy knows the session by its id."""

    def budgets(self) -> list[BudgetState]:
        from hivemind.world.snapshot import budgets_of

        return budgets_of(self.part.snapshot, self.agent)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the answer to a hook, or (`status`) what the command /hivemind shows; returns 0."""
    event = next(iter(sys.argv[1:] if argv is None else argv), "")
    text = ""
    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        if event in _ANSWERS:
            told = "" if event == "status" or sys.stdin.isatty() else sys.stdin.read()  # else it met a closed pipe
            text = _NO_PROXY if event == "status" else ""
            session = _session(os.environ)
            if session is not None and event == "SubagentStop":
                _end_sub_agent(session, told)
            text = text if session is None else _ANSWERS[event](session)
    if text:
        with contextlib.suppress(OSError):
            print(text, flush=True)
    return 0


def _session(environ: Mapping[str, str]) -> _Session | None:
    """Return what this session's proxy says; None: its requests go to none whose token may be used.

    Only the proxy at the session's own base URL is asked. The control token in the variables is sent nowhere but to the
    proxy that they or the settings' file name, since a base URL may be any server's.
    """
    from hivemind.agent_names import spelled_in
    from hivemind.cli.address import locate_proxy
    from hivemind.cli.client import ProxyClient, who
    from hivemind.console import printable
    from hivemind.control.discovery import (
        AGENT_VARIABLE,
        RUN_TOKEN_VARIABLE,
        TOKEN_VARIABLE,
        URL_VARIABLE,
        find_token,
        parse_address,
    )

    parts = urlsplit(environ.get(_BASE_VARIABLE, ""))
    if not parts.netloc:
        return None
    base = parse_address(f"{parts.scheme}://{parts.netloc}")
    named, found = locate_proxy(None)
    known = parse_address(named)
    given = bool(environ.get(URL_VARIABLE))
    here = known.url == base.url or (known.local and base.local and known.port == base.port)
    if here and (given or base.local):
        base = known
    elif base.local:
        for variable in (TOKEN_VARIABLE, RUN_TOKEN_VARIABLE):  # then it is the one of the proxy's note
            found.pop(variable, None)
    else:
        return None
    proxy = ProxyClient(base, find_token(base, found), who(environ), within_s=_WITHIN_S)
    part = proxy.world()
    agent = environ.get(AGENT_VARIABLE) or _agent_in(parts.path)
    if agent:
        agent = spelled_in((view.name for view in part.snapshot.agents), printable(agent))
    return _Session(proxy, part, agent or None)


def _agent_in(path: str) -> str | None:
    """Return the name in the path of a base URL, `/token/TOKEN/agent/NAME`."""
    words = path.strip("/").split("/")
    return next((unquote(name) for key, name in zip(words[::2], words[1::2], strict=False) if key == "agent"), None)


def _facts(session: _Session) -> str:
    """Return who the session is, its budgets and the room there is, in a line."""
    from hivemind.text import amounts

    world = session.part.snapshot
    who = "goes by its id" if session.agent is None else f"is the agent {session.agent}"
    said = [f"HiveMind: this session {who} behind the proxy at {session.proxy.place.url}."]
    if world.mode != "serving":
        said.append(f"The proxy is {world.mode}: requests wait or are refused.")
    said += [f"Of {amounts.owner(state)} {amounts.how_used(state)}." for state in session.budgets()]
    if len(said) == 1:
        said.append("No budget holds for it.")
    lanes = [each.state for each in world.lanes]
    lanes = [each for each in lanes if each.provider == "anthropic"] or lanes
    return " ".join([*said, *(["Room: " + _room(lanes) + "."] if lanes else [])])


def _room(lanes: Sequence[LaneState]) -> str:
    """Return the room in the lane that has most of it."""
    from hivemind.cli.operator.status import left

    lane = max(lanes, key=lambda each: each.level - each.active)
    parts = [f"{lane.active} in flight"]
    if lane.level < float("inf"):
        parts[0] += f" of {max(1, int(lane.level))}"
    parts.append(f"{lane.waiting} waiting")
    windows = left(lane.windows)
    return ", ".join([*parts, *([f"left of the provider's limits: {windows}"] if windows else [])])


def _begun(session: _Session) -> str:
    context = {"hookEventName": "SessionStart", "additionalContext": _facts(session)}
    return json.dumps({"hookSpecificOutput": context})


def _end_sub_agent(session: _Session, told: str) -> None:
    """Report the sub-agent that the hook was told of as ended, if the proxy knows it."""
    from hivemind.agent_names import same
    from hivemind.wire.identity import short_id

    with contextlib.suppress(Exception):  # the line about the budget is printed all the same
        hook = json.loads(told)
        lead = session.agent or f"claude-code-{short_id(hook['session_id'])}"
        name = f"{lead}/{short_id(hook['agent_id'])}"
        known = next((view.name for view in session.part.snapshot.agents if same(view.name, name)), None)
        if known is not None:
            session.proxy.command("EndAgent", agent=known)


def _ended(session: _Session) -> str:
    """Return a line for the user where little is left of a budget; else nothing."""
    from hivemind.text import amounts
    from hivemind.text.humanise import percent

    nearly = [state for state in session.budgets() if state.share >= _WARN_FROM]
    if not nearly:
        return ""
    state = max(nearly, key=lambda each: each.share)
    line = f"HiveMind: {percent(state.share)} of {amounts.owner(state)} is used ({amounts.how_used(state)})."
    return json.dumps({"systemMessage": line})


def _status(session: _Session) -> str:
    from hivemind.api_types import BudgetsPart
    from hivemind.cli.operator import budget, status

    budgets = session.proxy.get("/budgets", BudgetsPart)
    own = {session.agent, *(state.owner for state in session.budgets())}
    shown = replace(budgets, agents=tuple(each for each in budgets.agents if each.agent in own))
    return "\n".join([_facts(session), "", *status.shown(session.part, None), "", *budget.shown(shown, None)])


_ANSWERS: Mapping[str, Callable[[_Session], str]] = {
    "SessionStart": _begun,
    "Stop": _ended,
    "SubagentStop": _ended,
    "status": _status,
}

if __name__ == "__main__":
    sys.exit(main())
