"""The tool that explains how to point a client at the proxy: hm.setup."""

from __future__ import annotations

from hivemind.setup.clients import CLIENTS, instructions
from hivemind.setup.reach import is_loopback
from hivemind.tools.access import Caller, ProxyAccess
from hivemind.tools.errors import ToolError, unknown
from hivemind.tools.inputs import SetupInput
from hivemind.tools.outputs import ClientRow, Setup, SnippetRow


async def setup(proxy: ProxyAccess, caller: Caller, args: SetupInput) -> Setup:
    """List the clients that there are instructions for, or return the instructions for one."""
    if args.client is None:
        rows = [ClientRow(client=each.name, title=each.title, what=each.summary) for each in CLIENTS.values()]
        return Setup(said="Ask again with one of these as client.", clients=rows)
    if args.client not in CLIENTS:
        raise unknown("client", args.client, CLIENTS)
    client = CLIENTS[args.client]
    agent = client.agent if args.agent is None else _checked(args.agent)
    about = await proxy.about()
    token = about.agents_token or not is_loopback(about.address)
    found = instructions(client, about.address, agent, token, shell=args.shell)
    return Setup(
        said=f"{client.title}, as the agent {agent}: paste one of these; the first is the shortest.",
        snippets=[SnippetRow(where=each.where, text=each.text) for each in (*found.snippets, found.check, found.undo)],
        notes=[*found.limits, *(f"{label}: {text}" for label, text in found.facts)],
    )


def _checked(name: str) -> str:
    from hivemind.agent_names import BadName, normalised

    if name in ("", ".", ".."):
        raise ToolError("agent: must be at least one character, and neither . nor .., which URLs take for folders")
    try:
        return normalised(name)
    except BadName as error:
        raise ToolError(f"agent: {error}") from None
