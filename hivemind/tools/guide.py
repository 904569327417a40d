"""The tool that tells how to point a client at the proxy: hm.setup."""

from __future__ import annotations

from hivemind.setup.clients import CLIENTS, instructions
from hivemind.setup.reach import is_loopback
from hivemind.tools.desk import Caller, Desk
from hivemind.tools.failure import ToolFailure, unknown
from hivemind.tools.inputs import SetupInput
from hivemind.tools.outputs import ClientRow, Setup, SnippetRow


async def setup(desk: Desk, caller: Caller, asked: SetupInput) -> Setup:
    """List the clients there are instructions for, or give one's."""
    if asked.client is None:
        rows = [ClientRow(client=each.name, title=each.title, what=each.summary) for each in CLIENTS.values()]
        return Setup(said="Ask again with one of these as client.", clients=rows)
    if asked.client not in CLIENTS:
        raise unknown("client", asked.client, CLIENTS)
    client = CLIENTS[asked.client]
    agent = client.agent if asked.agent is None else _checked(asked.agent)
    about = await desk.about()
    token = about.agents_token or not is_loopback(about.address)
    found = instructions(client, about.address, agent, token, shell=asked.shell)
    return Setup(
        said=f"{client.title}, as the agent {agent}: paste one of these, the first is the shortest way.",
        snippets=[SnippetRow(where=each.where, text=each.text) for each in (*found.snippets, found.check, found.undo)],
        notes=[*found.limits, *(f"{label}: {text}" for label, text in found.facts)],
    )


def _checked(name: str) -> str:
    from hivemind.agent_names import BadName, normalised

    if name in ("", ".", ".."):
        raise ToolFailure("agent: must be at least one character, and neither . nor .., which URLs take for folders")
    try:
        return normalised(name)
    except BadName as error:
        raise ToolFailure(f"agent: {error}") from None
