"""`hivemind resume`: let all agents go on, or one that was paused or stopped; an ended command is started again."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hivemind.agent_names import spelled_in
from hivemind.agents.resumption import Resumption, resumption_kept
from hivemind.agents.run import REPORT_WITHIN_S, AgentCommand, Foreground, RunOutcome, run_agent
from hivemind.agents.session import Session
from hivemind.agents.worktrees import WantedWorktree
from hivemind.api_types import AgentBudget, BudgetsPart
from hivemind.cli import changes, client
from hivemind.cli.address import only_proxy
from hivemind.cli.agents.checkpoint import (
    NAMES_SHOWN,
    all_in,
    checkpoint_folder,
    conversation_of,
    names_known,
    write_out,
)
from hivemind.cli.agents.run import run_in_session
from hivemind.cli.plugin import Command
from hivemind.console import print_note, printable
from hivemind.control import discovery
from hivemind.control.client import ControlError
from hivemind.control.codec import to_plain
from hivemind.errors import HiveMindError, UsageError
from hivemind.records import replace
from hivemind.scheduler.commands import ClaimTask, FinishTask, PauseAgent, Rejected, RetryTask
from hivemind.scheduler.events import BudgetState
from hivemind.settings import Settings, add_flags, forget_secrets, from_flags, is_given
from hivemind.settings.options import STARTING
from hivemind.store.checkpoints import Checkpoint, Found, latest
from hivemind.text.amounts import how_used, owner, raise_command
from hivemind.text.humanise import exit_text, first_few, usage
from hivemind.text.shells import command_line
from hivemind.world.snapshot import AgentView, Snapshot

_WHO = "resume"


class CannotResume(HiveMindError):
    """The agent can't go on; the text says why and what would mend it."""


class AgentStatus(Struct, frozen=True):
    """An agent as the running proxy knows it."""

    known: bool
    view: AgentView | None
    """None: it was seen in an earlier run of the proxy only, or never."""
    used_up: BudgetState | None
    """An exhausted budget that covers the agent."""

    @property
    def held(self) -> bool:
        """Whether it is paused or stopped, or that isn't known."""
        return self.known and (self.view is None or self.view.held or self.view.stopped)


def standing(agent: str, world: Snapshot, books: BudgetsPart) -> AgentStatus:
    """Return the status of an agent in a proxy's responses."""
    view = next((each for each in world.agents if each.name == agent), None)
    known = view is not None or any(each.agent == agent for each in books.agents)
    return AgentStatus(known, view, used_up(agent, books))


def used_up(agent: str, books: BudgetsPart) -> BudgetState | None:
    """Return the first exhausted budget: its own, an ancestor's that covers it, or the pool."""
    by_name = {each.agent: each for each in books.agents}
    found: AgentBudget | None = by_name.pop(agent, None)
    states = [] if found is None else [found.budget]
    while found is not None:
        found = by_name.pop(found.parent, None) if found.parent else None
        if found is not None and found.budget is not None and found.budget.covers == "subtree":
            states.append(found.budget)
    states.append(books.pool.budget)
    return next((state for state in states if state is not None and state.share >= 1), None)


def how_to_raise(agent: str, state: BudgetState) -> str:
    """Return one line that says how an agent without budget goes on."""
    used = f"{owner(state)} is used up ({how_used(state)})"
    return f"{used}; raise it with `{raise_command(state)}`, then resume {agent} again"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [NAME] [--json] [setting ...]"
    parser.epilog = (
        "Without a name: send requests again after `hivemind pause`, or accept them again after a drain. With one: let"
        " that agent go on; where its process has ended, its command is started again, and its client continues its"
        " session if it can; its conversation is printed where no command is known. With --json nothing is started: the"
        " result has what was done, the agent's new state, its checkpoint and its conversation."
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="an agent, or a checkpoint [everybody]")
    client.add_flags(parser)
    add_flags(parser, STARTING)


def _run(namespace: argparse.Namespace) -> int:
    settings = from_flags(namespace, environ=os.environ, cwd=Path.cwd())
    forget_secrets()
    if namespace.name is None:
        at = _proxy(namespace, settings)
        if at.world().snapshot.mode == "draining":
            done = at.command("Drain", draining=False)
            return changes.print_change(namespace, at, done, ["requests are accepted again"])
        done = at.command("PauseAdmissions", paused=False)
        return changes.print_change(namespace, at, done, ["all requests go on"])
    proxy = _proxy_if_any(namespace, settings)
    checkpoints = all_in(checkpoint_folder(settings))
    kept = latest(checkpoints, namespace.name)
    agent = namespace.name if kept is None else kept.checkpoint.agent
    stands, others = AgentStatus(False, None, None), ""
    if proxy is not None:
        snapshot = proxy.world().snapshot
        names = [each.name for each in snapshot.agents]
        others = f"there are the agents {first_few(names, NAMES_SHOWN)}; " if names else ""
        agent = spelled_in(names, agent)
        stands = standing(agent, snapshot, proxy.get("/budgets", BudgetsPart))
    if kept is None and not stands.known:
        what = f"{namespace.name}: no agent and no checkpoint has that name"
        raise UsageError(printable(f"{what}; {others}{names_known(checkpoints)}"))
    as_json = client.wants_json(namespace)
    if stands.used_up is not None:
        if not as_json:
            raise CannotResume(how_to_raise(agent, stands.used_up))
        _print_result(agent, "nothing", how_to_raise(agent, stands.used_up), stands.view, kept)
        return CannotResume.exit_code
    if proxy is not None and stands.held:
        proxy.command("StopAgent", anywhere=True, agent=agent, stopped=False)
        proxy.command("PauseAgent", anywhere=True, agent=agent, paused=False)
    if as_json:
        return _result(proxy, agent, stands, kept)
    view = stands.view
    if view is not None and (view.running or (view.held and not view.stopped)):  # it continues by itself
        print_note(f"{agent} goes on" if stands.held else f"{agent} runs, and nothing holds it")
        return 0
    ended_well = view is not None and view.running is False and view.exit_code == 0 and not stands.held
    if kept is not None and kept.checkpoint.name != namespace.name and ended_well and kept.checkpoint.exit_code != 0:
        raise CannotResume(f"{agent} ran again since, and ended well; its checkpoint is {kept.checkpoint.name}")
    if kept is None:
        if stands.held:
            print_note(f"{agent} may go on")
            return 0
        raise CannotResume(f"{agent} is neither held nor stopped, and there is no checkpoint of it")
    if not kept.checkpoint.command:
        print_note(f"{agent} wasn't started by hivemind run, so here is its conversation")
        write_out(conversation_of(kept))
        return 0
    return _start_again(namespace, settings, kept)


def _proxy(namespace: argparse.Namespace, settings: Settings) -> client.ProxyClient:
    environ = dict(os.environ)
    if settings.control_token is not None:
        environ[discovery.TOKEN_VARIABLE] = settings.control_token.reveal()
    if settings.state_dir is not None:
        environ[discovery.STATE_VARIABLE] = str(settings.state_dir)
    placed = is_given("port", namespace, environ=os.environ, cwd=Path.cwd())
    only = None if placed else only_proxy(_named(namespace))
    place = discovery.parse_address(_named(namespace) or only or discovery.local_url(settings.host, settings.port))
    file = getattr(namespace, "token_file", None)
    token = discovery.find_token(place, environ, None if file is None else Path(file))
    return client.ProxyClient(place, token, client.who(os.environ))


def _proxy_if_any(namespace: argparse.Namespace, settings: Settings) -> client.ProxyClient | None:
    """Return None if none runs where these settings put it. Raises: UsageError, ProxyError: no named one runs."""
    try:
        proxy = _proxy(namespace, settings)
        proxy.world()
    except (UsageError, client.ProxyError):
        if _named(namespace):
            raise
        return None
    return proxy


def _named(namespace: argparse.Namespace) -> str | None:
    return getattr(namespace, "attach", None) or os.environ.get(discovery.URL_VARIABLE) or None


def _result(proxy: client.ProxyClient | None, agent: str, stands: AgentStatus, kept: Found | None) -> int:
    """Print what was done as JSON; no command is started. Raises: CannotResume: there is nothing to go on with."""
    view = stands.view
    if stands.held and proxy is not None:
        view = next((each for each in proxy.world().snapshot.agents if each.name == agent), None)
    runs = view is not None and bool(view.running)
    if kept is None and not runs and not stands.held:
        raise CannotResume(f"{agent} is neither held nor stopped, and there is no checkpoint of it")
    text = f"{agent} {'goes on' if runs else 'may go on'}" if stands.held else f"nothing holds {agent}"
    if not runs and kept is not None and kept.checkpoint.command:
        text += f"; {command_line('hivemind resume', kept.checkpoint.name)} starts its command again"
    _print_result(agent, "released" if stands.held else "nothing", text, view, kept)
    return 0


def _print_result(agent: str, done: str, text: str, view: AgentView | None, kept: Found | None) -> None:
    checkpoint, said = None if kept is None else kept.checkpoint, b"null"
    if kept is not None and kept.checkpoint.conversation_bytes:
        said = conversation_of(kept)
    facts = {"agent": agent, "done": done, "text": text, "state": to_plain(view), "checkpoint": to_plain(checkpoint)}
    write_out(msgspec.json.encode(facts)[:-1] + b',"conversation":' + said + b"}")


def how_it_goes_on(checkpoint: Checkpoint, resumption: Resumption | None) -> str:
    """Return a line that says whether the client of an agent continues its session, or what is lost."""
    agent, used = checkpoint.agent, checkpoint.run
    if resumption is not None and resumption.certain:
        kind, _, session = resumption.session.partition(":")
        return f"{agent} goes on in {kind}'s session {session}"
    unless = "" if resumption is None else " unless it is aider, which goes on from its chat history,"
    spent = usage(used.tokens, used.dollars, used.unpriced)
    cost = f"; the earlier run used {spent}" if used.tokens else ""
    return f"no session of {agent}'s client is known, so{unless} it starts anew{cost}"


def _start_again(namespace: argparse.Namespace, settings: Settings, kept: Found) -> int:
    """Run the command as `hivemind run` does, in the foreground; its client continues its session if it can."""
    checkpoint = kept.checkpoint
    agent, cwd = checkpoint.agent, Path(checkpoint.cwd or os.curdir)
    tree = WantedWorktree.kept(agent, cwd, os.environ)
    if not cwd.is_dir():
        raise CannotResume(printable(f"{agent} was started in {cwd}, and that folder isn't there any more"))
    job = AgentCommand(checkpoint.command, cwd, agent, checkpoint.parent, task=checkpoint.task, resumed=True)
    job = replace(job, resumption=resumption_kept(kept), worktree=tree)

    async def run(session: Session, foreground: Foreground) -> RunOutcome:
        if session.started:
            await _release(session, agent)
        print_note(printable(how_it_goes_on(checkpoint, job.resumption)))
        running = run_agent(session, job, environ=os.environ, say=print_note, foreground=foreground)
        return await with_task(session, checkpoint.task, running)

    try:
        return run_in_session(namespace, settings, job, run, environ=os.environ, log=print_note)
    except Rejected as error:
        raise CannotResume(printable(str(error))) from None


async def _release(session: Session, agent: str) -> None:
    """The same in a proxy that was started just now and knows what was decided before.

    Raises: CannotResume; ControlError.
    """
    state = used_up(agent, await session.ask(lambda client: client.budgets()))
    if state is not None:
        raise CannotResume(how_to_raise(agent, state))
    with contextlib.suppress(Rejected):  # it isn't known, so nothing holds it
        await session.order(PauseAgent(agent, False), _WHO)


async def with_task(session: Session, task: str | None, running: Coroutine[Any, Any, RunOutcome]) -> RunOutcome:
    """Run an agent that is resumed, with its task claimed meanwhile, and report how it ended.

    For a task that failed or was stopped this is another attempt: no other runner starts it meanwhile, and its
    dependents continue once it is done. Any other task isn't changed.

    Raises: Rejected: another runner has started it, or it couldn't succeed; ControlError.
    """
    with contextlib.closing(running):
        found = (await session.ask(lambda client: client.tasks())).tasks if task is not None else ()
        state = next((each for each in found if each.spec.id == task), None)
        if state is None or state.state not in ("failed", "ready", "paused"):
            return await running
        name = state.spec.id
        if state.state == "failed":
            await session.order(RetryTask(name), _WHO)
        await session.order(ClaimTask(name, f"resume-{os.getpid()}-{secrets.token_hex(4)}"), _WHO)
        end = FinishTask(name, False, state.note, again=state.state != "failed")
        try:
            outcome = await running
            code = outcome.exit_code
            end = FinishTask(name, code == 0, exit_text(code) if code else "")
            return outcome
        finally:
            with contextlib.suppress(Rejected, ControlError):  # another client has ended it, or the proxy is gone
                await session.order(end, _WHO, within_s=REPORT_WITHIN_S)


command = Command(_configure, _run)
