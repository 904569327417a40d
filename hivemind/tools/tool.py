"""A tool, and the errors of its calls: one line that a model can act on."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hivemind.text.humanise import did_you_mean
from hivemind.tools.access import Caller, ProxyAccess

PREFIX = "hm"
_SHOWN = 5
"""Most names, or errors, in one line."""

Args = TypeVar("Args", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)


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
    read_only: bool
    destructive: bool
    idempotent: bool

    def name(self, style: str) -> str:
        """Return the listed name: with a dot, or with an underscore."""
        return f"{PREFIX}{'_' if style == 'underscores' else '.'}{self.verb}"


def tool(
    title: str, *, read_only: bool = False, destructive: bool = False, idempotent: bool = False
) -> Callable[[Callable[[ProxyAccess, Caller, Args], Awaitable[Answer]]], Tool]:
    """Make a tool of a function: its name is the verb, its docstring the description for models."""

    def made(run: Callable[[ProxyAccess, Caller, Args], Awaitable[Answer]]) -> Tool:
        hints, text = get_type_hints(run), " ".join((run.__doc__ or "").split())
        return Tool(run.__name__, title, text, hints["args"], hints["return"], run, read_only, destructive, idempotent)

    return made


class ToolError(Exception):
    """The call can't be executed; the text says what is wrong, and what would be right."""


def unknown(kind: str, name: str, known: Iterable[str]) -> ToolError:
    """Return the error for a name that doesn't exist."""
    names = list(known)
    hint = did_you_mean(name, names)
    if not hint and names:
        hint = f"; there are {', '.join(names[:_SHOWN])}" + (" and others" if len(names) > _SHOWN else "")
    return ToolError(f"no {kind} named {name[:80]!r}{hint or '; there is none yet'}")


def invalid_arguments(error: ValidationError, takes: type[BaseModel]) -> ToolError:
    """Return the error for arguments that fail validation, each named by its path."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [_line(each["type"], each["loc"], each["msg"], takes) for each in found[:_SHOWN]]
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return ToolError("; ".join([*lines, *more]))


def _line(kind: str, loc: tuple[int | str, ...], text: str, takes: type[BaseModel]) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")
    if kind == "extra_forbidden":
        hint = did_you_mean(str(loc[-1]), takes.model_fields) if len(loc) == 1 else ""
        names = "" if hint or len(loc) > 1 else f"; there is {', '.join(takes.model_fields)}"
        return f"{place}: no such argument{hint}{names}"
    if kind == "missing":
        about = takes.model_fields[str(loc[0])].description if len(loc) == 1 else None
        return f"{place}: is missing" + (f"; it is: {about}" if about else "")
    text = text.removeprefix("Value error, ").removeprefix("Input ")
    return f"{place}: {text[:1].lower()}{text[1:]}"


MOST_TASKS = 1_000
MOST_ROWS = 50

PriorityName = Literal["critical", "high", "normal", "low"]
StateName = Literal["waiting", "ready", "running", "done", "failed", "blocked", "skipped", "cancelled"]


def _list_in_text(value: Any) -> Any:
    """Some clients send lists as the text of one."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


Words = Annotated[list[str], BeforeValidator(_list_in_text)]
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS, description="Most rows of each list; what is left out is counted.")]


class Input(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


class TaskFields(Input):
    """What may be said of a new task, beside its name."""

    priority: PriorityName | None = Field(None, description="How urgent it is; normal if you don't say.")
    estimated_tokens: int | None = Field(
        None, ge=0, le=10**12, description="About how much it will use; among equally urgent tasks the smallest starts."
    )
    after: Words | None = Field(
        None, description="Tasks that must be done before: names in the same batch, or full ids of others."
    )
    agent: str | None = Field(
        None,
        max_length=80,
        description="Who works on it; its requests are held while the task waits. An agent of the task's id otherwise.",
    )
    command: Words | None = Field(
        None,
        description="Program and arguments, one word each, that a runner (hivemind batch) starts when the task is"
        " ready. Without one, whoever works on it reports the outcome with hm.submit.",
    )
    on_failure: Literal["block", "skip"] | None = Field(
        None,
        description="When a task it waits for fails: block until that is tried again (the default), or skip for good.",
    )
    attempts: int | None = Field(None, ge=1, le=100, description="How often it may be started in all, where it fails.")


class TaskInput(TaskFields):
    name: str = Field(description="Letters, digits, . _ and -; unique in the batch.")


class SubmitInput(TaskFields):
    name: str = Field(description="The task's name: letters, digits, . _ and -. Of an existing task its name or id.")
    batch: str | None = Field(None, description="The batch it belongs to; its id is then BATCH.NAME, else NAME.")
    outcome: Literal["started", "done", "failed", "cancelled", "retry"] | None = Field(
        None,
        description="Leave out to add a new task. Of an existing one: started (you work on it now), done, failed,"
        " cancelled (not wanted any more), retry (one that failed may run again).",
    )
    note: str | None = Field(None, max_length=200, description="Why, for people; goes with done or failed.")


class BatchInput(Input):
    batch: str = Field(description="The batch's name: letters, digits, . _ and -.")
    tasks: Annotated[list[TaskInput], BeforeValidator(_list_in_text)] = Field(
        default_factory=list, max_length=MOST_TASKS, description="Its tasks, in any order: all are added or none."
    )
    action: Literal["submit", "cancel", "forget"] = Field(
        "submit",
        description="submit adds the tasks; cancel cancels every task of the batch that hasn't ended; forget removes a"
        " batch of which nothing runs, so that its name is free again.",
    )


class StatusInput(Input):
    agent: str | None = Field(None, description="Your own name at the proxy, where it isn't known by itself.")
    upstream: str | None = Field(None, description="Only lanes to this upstream.")
    batch: str | None = Field(None, description="Only tasks of this batch.")
    task_agent: str | None = Field(None, description="Only tasks that this agent works on.")
    task_state: StateName | None = Field(None, description="Only tasks in this state.")
    limit: Rows = 20


class PriorityInput(Input):
    priority: PriorityName = Field(description="critical goes first; low waits for everybody, but never for ever.")
    agent: str | None = Field(None, description="An agent that has been seen. Give this or task.")
    task: str | None = Field(None, description="A task's full id. What it waits for becomes at least as urgent.")


class BudgetInput(Input):
    agent: str | None = Field(None, description="Whose budget: an agent's name. Yourself, where you are known.")
    pool: bool = Field(False, description="The budget of all agents together instead.")
    tokens: int | None = Field(None, ge=1, le=10**15, description="Set this ceiling in tokens.")
    dollars: float | None = Field(None, gt=0, le=1e9, description="Set this ceiling in US dollars, at public prices.")
    per: Literal["run", "day", "ever"] | None = Field(
        None, description="What a new ceiling counts: the agent's run, the day, or everything. As before otherwise."
    )
    covers: Literal["agent", "subtree"] | None = Field(
        None, description="subtree: what the agents that it started use counts too. As before otherwise."
    )
    remove: bool = Field(False, description="Take the ceiling away.")
    limit: Rows = 20


class MetricsInput(Input):
    agent: str | None = Field(None, description="Only this agent.")
    order: Literal["tokens", "dollars", "requests", "retries", "waited"] = Field(
        "tokens", description="Which agents come first: those with the most of this."
    )
    limit: Rows = 20


class ConfigInput(Input):
    knob: str | None = Field(None, description="The knob to turn, such as aimd.beta; needs a value.")
    value: float | None = Field(None, description="Its new value; 0 takes a limit away where 0 is allowed.")
    upstream: str | None = Field(None, description="Turn it for this upstream only; all of them otherwise.")
    admissions: Literal["pause", "resume"] | None = Field(
        None, description="pause: start no request any more, those in flight go on. resume: go on."
    )
    circuit: Literal["auto", "open", "closed", "probe"] | None = Field(
        None, description="Hold the circuit breaker open or closed, let it decide (auto), or try one request (probe)."
    )
    lane: str | None = Field(None, description="The circuit of this lane only; all of them otherwise.")


class SetupInput(Input):
    client: str | None = Field(None, description="The program to point at the proxy; without one they are listed.")
    agent: str | None = Field(None, max_length=80, description="What its agent is to be called.")
    shell: Literal["bash", "fish", "powershell"] = Field("bash", description="Whose lines to give; bash is zsh's too.")
