"""The eight tools: name, description for models, input, output and function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from hivemind.tools import changes as steering
from hivemind.tools import inputs, outputs
from hivemind.tools import queries as looking
from hivemind.tools import setup as guide
from hivemind.tools import task_tools as tasking
from hivemind.tools.access import Caller, ProxyAccess

PREFIX = "hm"


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool."""

    verb: str
    """Its name without the prefix."""
    title: str
    description: str
    takes: type[BaseModel]
    gives: type[BaseModel]
    run: Callable[[ProxyAccess, Caller, Any], Awaitable[BaseModel]]
    """Raises: ToolError, Rejected, Unavailable."""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    def name(self, style: str) -> str:
        """Return the listed name: with a dot, or with an underscore."""
        return f"{PREFIX}{'_' if style == 'underscores' else '.'}{self.verb}"


TOOLS = (
    Tool(
        "submit",
        "Submit a task, or report on one",
        "Adds one task to the graph, or, with an outcome, reports how an existing one went (started, done, failed),"
        " cancels it (cancelled), or lets it run again (retry). A task is ready when everything in"
        " after is done; requests of its agent are held until then. Tasks with a command are started and reported by a"
        " runner; the outcome of the others is yours to report.",
        inputs.SubmitInput,
        outputs.Submitted,
        tasking.submit,
        destructive=True,
    ),
    Tool(
        "batch",
        "Submit many tasks at once",
        "Adds all tasks of a batch, or none: a cycle or an unknown predecessor is refused, and named. Can also"
        " cancel or forget a batch. Ask hm.status for headroom first and keep those without dependencies within it.",
        inputs.BatchInput,
        outputs.Batch,
        tasking.batch,
        destructive=True,
    ),
    Tool(
        "status",
        "Headroom, lanes, agents and tasks",
        "How much more work makes sense now (headroom, with advice), and what goes on: lanes with their limits, agents,"
        " and tasks. Ask before you start several agents or many requests at once, and again between steps.",
        inputs.StatusInput,
        outputs.Status,
        looking.status,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        "priority",
        "Change a priority",
        "Changes the priority of an agent or a task; queued requests move at once.",
        inputs.PriorityInput,
        outputs.Prioritised,
        steering.priority,
        idempotent=True,
    ),
    Tool(
        "budget",
        "Show or set a budget",
        "Returns the budgets that apply to an agent, or all of them. With tokens or dollars it sets the ceiling of an"
        " agent, of an agent with all it started (covers subtree), or of the pool: the new ceiling replaces the old one"
        " in both kinds. An agent whose budget is used up is refused with a 403 until it is raised.",
        inputs.BudgetInput,
        outputs.Budgets,
        steering.budget,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "metrics",
        "Usage, costs, retries and waits",
        "What was used and what it cost, in total and by agent: tokens by kind, dollars at public prices, retries,"
        " requests that succeeded after a retry, waits.",
        inputs.MetricsInput,
        outputs.Metrics,
        looking.metrics,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        "config",
        "Read or change the knobs",
        "Returns every knob's value and range, whether admissions are paused, and the circuits. Changes one thing per"
        " call: a knob, admissions, or a circuit. It holds until the proxy ends; its settings file stays as it is.",
        inputs.ConfigInput,
        outputs.Config,
        steering.config,
        destructive=True,
    ),
    Tool(
        "setup",
        "How to point a client at the proxy",
        "The lines to paste so that a client (Claude Code, Codex, Gemini CLI, an SDK ...) sends its requests through"
        " this proxy under a name of its own; for `mcp` how to add these tools to it.",
        inputs.SetupInput,
        outputs.Setup,
        guide.setup,
        read_only=True,
        idempotent=True,
    ),
)


def find(name: str) -> Tool | None:
    """Return the tool of that name. Clients rewrite dots, so both spellings are understood."""
    prefix, separator, verb = name[: len(PREFIX)], name[len(PREFIX) : len(PREFIX) + 1], name[len(PREFIX) + 1 :]
    if prefix != PREFIX or separator not in (".", "_"):
        return None
    return next((tool for tool in TOOLS if tool.verb == verb), None)
