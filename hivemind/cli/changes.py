"""Commands that change something: how the proxy is told, and what `--json` prints of the state afterwards."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from hivemind.agent_names import spelled_in
from hivemind.api_types import AgentBudget, BudgetsPart, TasksPart
from hivemind.cli import client
from hivemind.cli.client import ProxyClient, ProxyError
from hivemind.console import print_note, printable
from hivemind.control.codec import to_plain


def send_command(namespace: argparse.Namespace, done: str, name: str, **arguments: object) -> int:
    """Have the proxy execute a command, and print `done` or the result; one for an agent is executed by every proxy of
    the fleet that serves it. Return the exit code."""
    proxy = client.find_proxy(namespace)
    result = proxy.command(name, anywhere="agent" in arguments, **arguments)
    return print_change(namespace, proxy, result, [printable(done)])


def print_change(
    namespace: argparse.Namespace,
    proxy: ProxyClient,
    result: dict[str, Any],
    text: Iterable[str],
    before: object = None,
) -> int:
    """Print the text, or with `--json` the command's result with `state`, what it is about as it is now, and `before`,
    if given, as it was. Return the exit code."""
    if client.wants_json(namespace):
        result = {**result, **({} if before is None else {"before": before}), "state": _state(proxy, result)}
    return client.print_answer(namespace, result, text)


def stands(proxy: ProxyClient, agent: str | None) -> AgentBudget:
    """Return an agent's budget, or (None) the pool's. Raises: ProxyError."""
    budgets = proxy.get("/budgets", BudgetsPart, agent=agent)
    return budgets.pool if agent is None else budgets.agents[0]


def knob_values(proxy: ProxyClient, knob: str, upstream: str | None = None) -> dict[str, float]:
    """Return a knob's value at each upstream that was used, or at one. Raises: ProxyError."""
    states = [view.state for view in reversed(proxy.world().snapshot.lanes)]
    return {
        each.upstream: each.knobs[knob] for each in states if knob in each.knobs and upstream in (None, each.upstream)
    }


def _state(proxy: ProxyClient, result: dict[str, Any]) -> object:
    """Return what a command is about as it is now; None: it can't be read, or another proxy serves the agent."""
    try:
        return to_plain(_read(proxy, result["name"], result["arguments"]))
    except ProxyError as error:  # what was asked for is done all the same
        why = str(error)
    except (LookupError, TypeError):
        why = "the proxy's answer isn't one of its command"
    print_note(f"done, but the new state can't be read: {why}")
    return None


def _read(proxy: ProxyClient, name: str, given: dict[str, Any]) -> object:
    match name:
        case "PauseAdmissions" | "Drain":
            return {"mode": proxy.world().snapshot.mode}
        case "Acknowledge":
            return proxy.world().snapshot.alerts
        case "AddNote":
            return given["text"]
        case "SetCircuit":
            states = [view.state for view in proxy.world().snapshot.lanes]
            wanted = [each for each in states if given["lane"] in (None, each.lane)]
            return {each.lane: {"circuit": each.circuit, "forced": each.circuit_forced} for each in wanted}
        case "PauseAgent" | "StopAgent" | "CutRequest" | "SetPriority":
            agents = {each.name: each for each in proxy.world().snapshot.agents}
            return agents.get(spelled_in(agents, given["agent"]))
        case "Tune":
            return knob_values(proxy, given["knob"], given["upstream"])
        case "SetBudget":
            return stands(proxy, given["agent"])
        case "SubmitTasks":
            return _task(proxy, given["tasks"][0]["id"])
        case _:
            return _task(proxy, given["task"])


def _task(proxy: ProxyClient, name: str) -> object:
    return next((each for each in proxy.get("/tasks", TasksPart).tasks if each.spec.id == name), None)
