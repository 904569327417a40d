"""`hivemind resume`: let everybody go on, or an agent that was paused or stopped, starting its command again where its
process has ended."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.agent_names import spelled_in
from hivemind.agents.resume import UNKNOWN, how_to_raise, standing, used_up
from hivemind.agents.transcript import printable
from hivemind.api_types import BudgetsPart
from hivemind.cli import client
from hivemind.cli.agents.checkpoint import NotKept, all_in, checkpoint_folder, conversation_of, names_known, write_out
from hivemind.cli.operator.status import world
from hivemind.cli.plugin import Command
from hivemind.cli.proxy_client import ProxyClient, ProxyError
from hivemind.control.client import ControlError
from hivemind.control.discovery import STATE_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE, find_token, parse_address
from hivemind.errors import HiveMindError, UsageError
from hivemind.scheduler.commands import PauseAgent, Rejected
from hivemind.settings import Settings, add_flags, from_flags, settings_file
from hivemind.setup.reach import local_url
from hivemind.store.checkpoints import Checkpoint, Found, latest

if TYPE_CHECKING:
    from hivemind.host.proxy import Proxy

_NAMES_TOLD = 8


class CannotResume(HiveMindError):
    """The agent can't go on; the text says why and what would mend it."""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [NAME] [--json] [setting ...]"
    parser.epilog = (
        "Without a name: take requests again after `hivemind pause`. With one: let that agent go on; where its process"
        " has ended, its command is started again, or its conversation printed where no command is known, or with"
        " --json."
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="an agent, or a checkpoint [everybody]")
    client.add_flags(parser)
    add_flags(parser, listed=False)


def _run(namespace: argparse.Namespace) -> int:
    settings = from_flags(namespace, environ=os.environ, cwd=Path.cwd())
    if namespace.name is None:
        return client.send_command(
            namespace, _proxy(namespace, settings), "all requests go on", "PauseAdmissions", paused=False
        )
    proxy = _proxy_if_any(namespace, settings)
    kept = latest(found := all_in(checkpoint_folder(settings)), namespace.name)
    agent = namespace.name if kept is None else kept.checkpoint.agent
    stands = UNKNOWN
    if proxy is not None:
        snapshot = world(proxy).snapshot
        agent = spelled_in((each.name for each in snapshot.agents), agent)
        stands = standing(agent, snapshot, proxy.get("/budgets", BudgetsPart))
    if kept is None and not stands.known:
        raise UsageError(_unknown(namespace.name, proxy, found))
    as_json = client.wants_json(namespace)
    if stands.used_up is not None and not as_json:
        raise CannotResume(how_to_raise(agent, stands.used_up))
    if proxy is not None and stands.held:
        _release(proxy, agent)
    if as_json:
        return _hand_over(agent, kept)
    if stands.runs or stands.only_paused:
        _say(f"{agent} goes on" if stands.held else f"{agent} runs, and nothing holds it")
        return 0
    if kept is not None and kept.checkpoint.name != namespace.name and stands.is_past(kept.checkpoint):
        raise CannotResume(f"{agent} ran again since, and ended well; its checkpoint is {kept.checkpoint.name}")
    if kept is None:
        if stands.held:
            _say(f"{agent} may go on")
            return 0
        raise CannotResume(f"{agent} is neither paused nor stopped, and there is no checkpoint of it")
    if not kept.checkpoint.command:
        _say(f"{agent} wasn't started by hivemind run, so here is its conversation")
        return _hand_over(agent, kept)
    return _start_again(namespace, settings, kept.checkpoint)


# --- The proxy --------------------------------------------------------------------------------------------------------


def _proxy(namespace: argparse.Namespace, settings: Settings) -> ProxyClient:
    """Raises: UsageError."""
    environ = dict(os.environ)
    if settings.control_token is not None:
        environ[TOKEN_VARIABLE] = settings.control_token.get_secret_value()
    if settings.state_dir is not None:
        environ[STATE_VARIABLE] = str(settings.state_dir)
    place = parse_address(_named(namespace) or local_url(settings.host, settings.port))
    file = getattr(namespace, "token_file", None)
    token = find_token(place, environ, None if file is None else Path(file))
    return ProxyClient(place, token, client.who(os.environ))


def _proxy_if_any(namespace: argparse.Namespace, settings: Settings) -> ProxyClient | None:
    """None: none runs where these settings put it. Raises: UsageError, ProxyError: the one that was named isn't to be
    had."""
    try:
        proxy = _proxy(namespace, settings)
        world(proxy)
    except (UsageError, ProxyError):
        if _named(namespace):
            raise
        return None
    return proxy


def _named(namespace: argparse.Namespace) -> str | None:
    return getattr(namespace, "attach", None) or os.environ.get(URL_VARIABLE) or None


def _release(proxy: ProxyClient, agent: str) -> None:
    proxy.command("StopAgent", agent=agent, stopped=False)
    proxy.command("PauseAgent", agent=agent, paused=False)


def _unknown(name: str, proxy: ProxyClient | None, found: list[Found]) -> str:
    agents = [] if proxy is None else [each.name for each in world(proxy).snapshot.agents]
    more = " and others" if len(agents) > _NAMES_TOLD else ""
    known = f"there are the agents {', '.join(agents[:_NAMES_TOLD])}{more}; " if agents else ""
    return printable(f"{name}: no agent and no checkpoint has that name; {known}{names_known(found)}")


# --- The checkpoint ---------------------------------------------------------------------------------------------------


def _hand_over(agent: str, kept: Found | None) -> int:
    """Print the conversation. Raises: NotKept."""
    if kept is None:
        raise NotKept(printable(f"there is no checkpoint of {agent}"))
    write_out(conversation_of(kept))
    return 0


def _start_again(namespace: argparse.Namespace, settings: Settings, checkpoint: Checkpoint) -> int:
    from hivemind.agents.run import CannotRun
    from hivemind.host import server

    cwd = Path(checkpoint.cwd or os.curdir)
    if not cwd.is_dir():
        raise CannotResume(printable(f"{checkpoint.agent} was started in {cwd}, and that folder isn't there any more"))
    try:
        return server.run_loop(_live(namespace, settings, checkpoint, cwd))
    except CannotRun as error:
        print(f"hivemind: {error}", file=sys.stderr)
        return error.code


async def _live(namespace: argparse.Namespace, settings: Settings, checkpoint: Checkpoint, cwd: Path) -> int:
    """As `hivemind run` does it, in the foreground."""
    from hivemind.agents.resume import taken_on
    from hivemind.agents.run import AgentCommand, Foreground, run_agent
    from hivemind.agents.session import open_session
    from hivemind.cli.agents.run import as_shell, told

    agent = checkpoint.agent
    job = AgentCommand(checkpoint.command, cwd, agent, checkpoint.parent, task=checkpoint.task, resumed=True)
    file, token = settings_file(namespace, environ=os.environ, cwd=Path.cwd()), getattr(namespace, "token_file", None)
    foreground, code = Foreground(), 0
    with foreground.caught():
        try:
            async with open_session(
                settings,
                environ=os.environ,
                say=_say,
                attach=getattr(namespace, "attach", None),
                token_file=None if token is None else Path(token),
                settings_file=file,
            ) as session:
                if session.proxy is not None:
                    _release_here(session.proxy, agent)
                async with taken_on(session, checkpoint.task) as taken:
                    outcome = await run_agent(session, job, environ=os.environ, say=_say, foreground=foreground)
                    taken.outcome = outcome
                code = as_shell(outcome.exit_code)
                _say(told(outcome))
        except asyncio.CancelledError:
            if not foreground.number:
                raise
            return code or 128 + foreground.number
        except ControlError as error:
            raise CannotResume(f"the proxy can't be asked any more: {error}") from None
        except Rejected as error:
            raise CannotResume(printable(str(error))) from None
    return code


def _release_here(proxy: Proxy, agent: str) -> None:
    """The same in a proxy that was started just now and knows what was decided before. Raises: CannotResume."""
    state = used_up(agent, proxy.budgets(None))
    if state is not None:
        raise CannotResume(how_to_raise(agent, state))
    with contextlib.suppress(Rejected):  # it isn't known, so nothing holds it
        proxy.apply(PauseAgent(agent, False), "resume")


def _say(text: str) -> None:
    print(f"hivemind: {printable(text)}", file=sys.stderr, flush=True)


command = Command(_configure, _run)
