"""The groups of settings. Defaults are the scheduler's own; the ranges are what makes sense to run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar, get_type_hints

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields

from hivemind.scheduler import config
from hivemind.scheduler.places import PlaceLimits
from hivemind.world.health import AlertLimits

_CIRCUIT, _RETRY, _QUEUE = config.CircuitConfig(), config.RetryConfig(), config.QueueConfig()
_BUDGET, _SCHEDULER = config.BudgetConfig(), config.SchedulerConfig()
_PLACES = PlaceLimits()
_ALERTS = AlertLimits()

T = TypeVar("T")
_NO_SETTING = "ignored"  # a field of the record of all that is none
ANY_FILE: Final = "any file"
AnyFile = Annotated[T, ANY_FILE]
"""A setting that counts from any settings file, also from one that was found and isn't trusted.

It must be of pace or looks: whatever its value, no key, prompt or alert goes elsewhere for it, nothing is read, kept or
removed, nobody may do or spend more, and no bound on memory or processes is lifted.
"""

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
SecondsOrZero = Annotated[float, Meta(ge=0, le=86_400)]


class Placeholder(Struct, frozen=True):
    """What stands for a setting's value in help."""

    text: str


class Secret:
    """A text that is neither shown by accident nor encoded."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(***)"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Callable[[object], Any]) -> Any:
        """Have pydantic take a text for it, or one that is made already."""
        from pydantic_core.core_schema import no_info_wrap_validator_function as wrapped

        return wrapped(lambda value, text: value if isinstance(value, cls) else cls(text(value)), handler(str))


class BadSetting(ValueError):
    """A value that a setting can't have."""

    def __init__(self, path: tuple[str, ...], why: str | None) -> None:
        super().__init__(path, why)
        self.path = path
        """Section, if any, and name."""
        self.why = why
        """None: it isn't of the setting's type, or out of its range."""


@cache
def settings_of(record: type[Struct]) -> tuple[tuple[str, Any, Any], ...]:
    """Return name, type and default of each setting and section of a record of them; all have a default."""
    hints = get_type_hints(record, include_extras=True)
    return tuple(
        (field.name, hints[field.name], field.default if field.default is not NODEFAULT else field.default_factory())
        for field in fields(record)
        if field.name != _NO_SETTING
    )


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """A group: `--circuit.window`, `HIVEMIND_CIRCUIT__WINDOW`, or `window` under `[circuit]`."""


class AimdSettings(Section, frozen=True):
    """Concurrency control (AIMD); unset: as the provider's profile has it."""

    alpha: AnyFile[Annotated[float, Meta(gt=0, le=100)]] | None = None
    """Added to the concurrency level by a step up."""
    beta: AnyFile[Annotated[float, Meta(gt=0, lt=1)]] | None = None
    """The level is multiplied by this on congestion."""
    floor: AnyFile[Annotated[float, Meta(ge=1, le=10_000)]] | None = None
    """Min concurrency: the level never goes below this."""
    latency_target_s: AnyFile[Seconds] | None = None
    """A mean time to first token that is above what the prompts take alone by more than this counts as congestion."""


class CircuitSettings(Section, frozen=True):
    """Circuit breaker."""

    window: AnyFile[Annotated[int, Meta(ge=1, le=10_000)]] = _CIRCUIT.window
    """Results looked at."""
    threshold: AnyFile[Annotated[float, Meta(gt=0, le=1)]] = _CIRCUIT.threshold
    """Error threshold: the share of failed ones among them that opens it."""
    cooldown_s: AnyFile[Seconds] = _CIRCUIT.cooldown_s
    """From opening to the probe."""
    when_open: AnyFile[Literal["hold", "refuse"]] = _CIRCUIT.when_open
    """Hold requests that can wait for the probe, or fail them all at once."""


class RetrySettings(Section, frozen=True):
    """Transparent retry."""

    base_s: AnyFile[Seconds] = _RETRY.base_s
    """First delay; doubles with each attempt."""
    max_s: AnyFile[Seconds] = _RETRY.max_s
    """Longest delay of our own; a provider's Retry-After may be longer."""
    max_attempts: AnyFile[Annotated[int, Meta(ge=1, le=1_000)]] = _RETRY.max_attempts
    """Attempts a request, the first included; 1: never retry."""
    deadline_s: AnyFile[Seconds] = _RETRY.deadline_s
    """From a request's arrival; no attempt starts later."""
    budget_ratio: AnyFile[Annotated[float, Meta(ge=0, le=100)]] = _RETRY.budget_ratio
    """Retries earned by each request."""


class QueueSettings(Section, frozen=True):
    """The queue in front of the gate."""

    max_depth: AnyFile[Annotated[int, Meta(ge=1, le=1_000_000)]] = _QUEUE.max_depth
    """Waiting requests in all."""
    max_wait_s: AnyFile[Seconds] = _QUEUE.max_wait_s
    """Longest wait before a request is refused."""
    ageing_s: AnyFile[Seconds] = _QUEUE.ageing_s
    """A priority class that waited this long competes one class higher."""
    fairness: AnyFile[Literal["roots", "agents"]] = _QUEUE.fairness
    """Equal shares for agents that none started, each with all that it started; or for all agents."""


class BudgetSettings(Section, frozen=True):
    """What agents may use until somebody decides otherwise."""

    tokens: Annotated[int, Meta(ge=1, le=10**15)] | None = None
    """Of each agent; unset: no limit."""
    dollars: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Likewise, by public prices."""
    pool_tokens: Annotated[int, Meta(ge=1, le=10**15)] | None = None
    """Of all agents together; unset: no limit."""
    pool_dollars: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Likewise, by public prices."""
    per: Literal["run", "day", "month", "ever"] = _BUDGET.per
    """What a budget counts that doesn't say: a run, a day, a month, or everything."""
    unpriced: Literal["estimate", "count", "refuse"] = _BUDGET.unpriced
    """A model without a known price, on a budget in dollars: price it as its provider's dearest, count no dollars, or
    refuse it."""


class CheckpointSettings(Section, frozen=True):
    """What is kept of an agent that is stopped, to go on from."""

    enabled: bool = True
    """Keep it."""
    max_mb: Annotated[int, Meta(ge=1, le=1_024)] = 32
    """Largest conversation that is kept, in MiB."""
    keep: Annotated[int, Meta(ge=1, le=10_000)] = 5
    """Checkpoints an agent; older ones are removed."""


class JournalSettings(Section, frozen=True):
    """The journal: all that happens, a line each, to look at and to work with later."""

    enabled: bool = True
    """Write it."""
    bodies: bool = False
    """With what agents sent and were answered, without credentials; --record-bodies is the same."""
    max_mb: Annotated[int, Meta(ge=1, le=65_536)] = 64
    """A part of a journal that is larger, in MiB, is followed by another."""
    max_hours: Annotated[float, Meta(gt=0, le=8_760)] = 24.0
    """So is one that is older."""
    keep_days: Annotated[float, Meta(gt=0, le=36_500)] = 14.0
    """Older ones are removed, but for the last ten files."""
    keep_mb: Annotated[int, Meta(ge=1, le=16_777_216)] = 2_048
    """All journals together, in MiB; beyond that the oldest are removed."""


class McpSettings(Section, frozen=True):
    """The MCP server at /mcp, and `hivemind mcp`."""

    enabled: bool = True
    """Serve it."""
    read_only: bool = False
    """Tools may look and submit tasks without commands, but change no setting, priority or budget."""


class AgentSettings(Section, frozen=True):
    """Agents' names, and what an agent may say of itself."""

    require_name: bool = False
    """Refuse requests whose agent has no name of its own, in its path, its headers or by its token."""
    credentials: Annotated[Mapping[str, Secret], Placeholder("JSON")] = {}
    """A token for each agent, by name: who goes by that name must show it, and who shows it is that agent."""
    highest_priority: Literal["critical", "high", "normal", "low"] = "high"
    """The most urgent priority that a request may ask for itself."""
    hold_answers: Annotated[tuple[str, ...], Placeholder("NAME")] = ()
    """Agents whose streams are held until they are whole, each with its sub-agents; * means all. May be given more than
    once."""
    max_depth: Annotated[int, Meta(ge=0, le=64)] = _PLACES.depth
    """Agents that hivemind run starts inside one another, the first included; deeper ones are refused. 0: no limit."""
    max_tree: Annotated[int, Meta(ge=0, le=100_000)] = _PLACES.tree
    """Processes of one tree of agents, running or queued; further ones are refused. 0: no limit."""


class AlertSettings(Section, frozen=True):
    """Alerts: what the operator is told of by itself, and how."""

    died: bool = True
    """When an agent's process ended with an error, or by a signal that no operator sent."""
    wait_s: SecondsOrZero = _ALERTS.wait_s
    """When a request has waited this long; 0: never."""
    budget_share: Annotated[float, Meta(ge=0, le=1)] = _ALERTS.budget_share
    """When this share of a budget is used; 0: never."""
    circuit_s: SecondsOrZero = _ALERTS.circuit_s
    """When a circuit has been open this long; 0: never."""
    dollars_per_hour: Annotated[float, Meta(ge=0, le=1e9)] = _ALERTS.dollars_per_hour
    """When more is spent than this, by public prices; 0: never."""
    bell: AnyFile[bool] = True
    """The control room's terminal rings at a new alert."""
    desktop: AnyFile[bool] = True
    """The terminal shows a new alert as a notification of the desktop, if it can (OSC 9, OSC 777)."""
    title: AnyFile[bool] = True
    """The terminal's title is the verdict while the control room is open."""
    webhook: Annotated[Secret | None, Placeholder("URL")] = None
    """Where alerts are sent, http:// or https://. Better as HIVEMIND_ALERTS__WEBHOOK if it holds a secret."""
    webhook_secret: Annotated[Secret | None, Placeholder("TEXT")] = None
    """Signs what is sent there (HMAC-SHA256). Better as HIVEMIND_ALERTS__WEBHOOK_SECRET."""

    def limits(self) -> AlertLimits:
        """Return the limits of the rules."""
        return AlertLimits(self.died, self.wait_s, self.budget_share, self.circuit_s, self.dollars_per_hour)


class FeatureSettings(Section, frozen=True):
    """Parts that can be switched off, to see what each is good for."""

    admission: bool = _SCHEDULER.admission
    """Limit concurrency."""
    rate_windows: bool = _SCHEDULER.rate_windows
    """Keep to the provider's rate limits."""
    backpressure: bool = _SCHEDULER.backpressure
    """Adapt concurrency (AIMD) and break the circuit."""


_RESERVE = re.compile(r"reserve=(\d{1,2}(?:\.\d+)?)%")


def pace_of(text: str) -> config.Pace:
    """Return the pace that a setting names. Raises: ValueError."""
    reserve = _RESERVE.fullmatch(text)
    if text not in ("front", "even") and (reserve is None or not float(reserve[1])):
        raise ValueError("must be front, even, or reserve=20% with a share between 0% and 100%")
    return config.Pace(text == "even", float(reserve[1]) / 100 if reserve else 0.0)
