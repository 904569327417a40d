"""A tool, and the errors of its calls: one line that a model can act on."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from msgspec import Struct
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hivemind.text.humanise import did_you_mean
from hivemind.tools.access import Caller, ProxyAccess

PREFIX = "hm"
_SHOWN = 5
"""Most names, or errors, in one line."""

Args = TypeVar("Args", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)


class Tool(Struct, frozen=True):
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

    @property
    def name(self) -> str:
        """The listed name. Clients whose models take no dot make it an underscore, which is understood too."""
        return f"{PREFIX}.{self.verb}"


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
StateName = Literal["waiting", "ready", "paused", "running", "done", "failed", "blocked", "skipped", "cancelled"]


def _list_in_text(value: Any) -> Any:
    """Some clients send lists as the text of one."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


Words = Annotated[list[str], BeforeValidator(_list_in_text)]
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS, description="Rows of each list.")]


class Input(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


class TaskFields(Input):
    """What may be said of a new task, beside its name."""

    priority: PriorityName | None = Field(None, description="normal if not given.")
    estimated_tokens: int | None = Field(
        None, ge=0, le=10**12, description="Of equally urgent ones the smallest starts."
    )
    after: Words | None = Field(None, description="Names or ids of tasks that must be done before.")
    agent: str | None = Field(
        None, max_length=80, description="Who works on it; its requests wait while the task does."
    )
    command: Words | None = Field(None, description="Program and arguments, for a runner. Without: report the outcome.")
    on_failure: Literal["block", "skip"] | None = Field(None, description="If a task before it fails.")
    attempts: int | None = Field(None, ge=1, le=100, description="Starts in all, where it fails.")


class TaskInput(TaskFields):
    name: str = Field(description="Letters, digits, . _ and -; unique in the batch.")


class SubmitInput(TaskFields):
    name: str = Field(description="Letters, digits, . _ and -; of an existing task its name or id.")
    batch: str | None = Field(None, description="The task's id is then BATCH.NAME.")
    outcome: Literal["started", "done", "failed", "cancelled", "retry"] | None = Field(
        None, description="Of an existing task; leave out to add one."
    )
    note: str | None = Field(None, max_length=200, description="Why, with done or failed.")


class BatchInput(Input):
    batch: str = Field(description="Its name.")
    tasks: Annotated[list[TaskInput], BeforeValidator(_list_in_text)] = Field(
        default_factory=list, max_length=MOST_TASKS, description="Fields as of submit, in any order."
    )
    action: Literal["submit", "cancel", "forget"] = Field(
        "submit", description="cancel: what hasn't ended; forget: a batch of which nothing runs."
    )


class StatusInput(Input):
    agent: str | None = Field(None, description="Your name, if it isn't known.")
    upstream: str | None = Field(None, description="Only its lanes.")
    batch: str | None = Field(None, description="List only its tasks.")
    task_agent: str | None = Field(None, description="List only this agent's tasks.")
    task_state: StateName | None = Field(None, description="List only these tasks.")
    limit: Rows | None = Field(None, description="List lanes, agents and tasks, so many of each. Without: a summary.")


class PriorityInput(Input):
    priority: PriorityName
    agent: str | None = Field(None, description="An agent; or task.")
    task: str | None = Field(None, description="A task's id. What it waits for inherits it.")


class BudgetInput(Input):
    agent: str | None = Field(None, description="Whose; yours by default.")
    pool: bool = Field(False, description="That of all agents together.")
    tokens: int | None = Field(None, ge=1, le=10**15, description="Set this limit.")
    dollars: float | None = Field(None, gt=0, le=1e9, description="Set this limit.")
    per: Literal["run", "day", "month", "ever"] | None = Field(None, description="What the budget counts.")
    covers: Literal["agent", "subtree"] | None = Field(None, description="subtree: with all it starts.")
    remove: bool = Field(False, description="Take the budget away.")
    limit: Rows = 20


class MetricsInput(Input):
    agent: str | None = Field(None, description="Only this one.")
    order: Literal["tokens", "dollars", "requests", "retries", "waited"] = Field("tokens", description="Most first.")
    limit: Rows = 20


class ConfigInput(Input):
    knob: str | None = Field(None, description="To turn, such as aimd.beta, to value.")
    value: float | None = Field(None, description="0: no limit, where allowed.")
    upstream: str | None = Field(None, description="The knob's; all by default.")
    pause: bool | None = Field(None, description="Or resume.")
    circuit: Literal["auto", "open", "closed", "probe"] | None = None
    lane: str | None = Field(None, description="The circuit's; all by default.")


class SetupInput(Input):
    client: str | None = Field(None, description="Which program; without, they are listed.")
    agent: str | None = Field(None, max_length=80, description="What its agent is to be called.")
    shell: Literal["bash", "fish", "powershell"] = "bash"
