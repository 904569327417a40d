"""The groups of settings. Defaults are the scheduler's own; the ranges are what makes sense to run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from hivemind.agent_names import BadName, normalised, spelled_in
from hivemind.scheduler import config
from hivemind.scheduler.places import PlaceLimits
from hivemind.world.health import AlertLimits

_CIRCUIT, _RETRY, _QUEUE = config.CircuitConfig(), config.RetryConfig(), config.QueueConfig()
_BUDGET, _SCHEDULER = config.BudgetConfig(), config.SchedulerConfig()
_PLACES = PlaceLimits()
_ALERTS = AlertLimits()

T = TypeVar("T")
ANY_FILE: Final = "any file"
AnyFile = Annotated[T, ANY_FILE]
"""A setting that counts from any settings file, also from one that was found and isn't trusted.

It must be of pace or looks: whatever its value, no key, prompt or alert goes elsewhere for it, nothing is read, kept or
removed, nobody may do or spend more, and no bound on memory or processes is lifted.
"""

Seconds = Annotated[float, Field(gt=0, le=86_400)]
SecondsOrZero = Annotated[float, Field(ge=0, le=86_400)]


class Section(BaseModel):
    """A group: `--circuit.window`, `HIVEMIND_CIRCUIT__WINDOW`, or `window` under `[circuit]`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True, validate_default=True
    )


def _not_below(section: str, name: str) -> Callable[[type[Section], float, ValidationInfo], float]:
    """Return a check that a value is at least that of another setting of its section."""

    def checked(cls: type[Section], value: float, info: ValidationInfo) -> float:
        least = info.data.get(name)
        if least is not None and value < least:
            raise ValueError(f"must be at least {section}.{name}, which is {least:.10g}")
        return value

    return checked


class AimdSettings(Section):
    """Concurrency control (AIMD); unset: as the provider's profile has it."""

    alpha: AnyFile[Annotated[float, Field(gt=0, le=100)]] | None = None
    """Added to the concurrency level by a step up."""
    beta: AnyFile[Annotated[float, Field(gt=0, lt=1)]] | None = None
    """The level is multiplied by this on congestion."""
    floor: AnyFile[Annotated[float, Field(ge=1, le=10_000)]] | None = None
    """Min concurrency: the level never goes below this."""
    latency_target_s: AnyFile[Seconds] | None = None
    """A mean time to first token that is above what the prompts take alone by more than this counts as congestion."""


class CircuitSettings(Section):
    """Circuit breaker."""

    window: AnyFile[Annotated[int, Field(ge=1, le=10_000)]] = _CIRCUIT.window
    """Results looked at."""
    threshold: AnyFile[Annotated[float, Field(gt=0, le=1)]] = _CIRCUIT.threshold
    """Error threshold: the share of failed ones among them that opens it."""
    cooldown_s: AnyFile[Seconds] = _CIRCUIT.cooldown_s
    """From opening to the probe."""
    when_open: AnyFile[Literal["hold", "refuse"]] = _CIRCUIT.when_open
    """Hold requests that can wait for the probe, or fail them all at once."""


class RetrySettings(Section):
    """Transparent retry."""

    base_s: AnyFile[Seconds] = _RETRY.base_s
    """First delay; doubles with each attempt."""
    max_s: AnyFile[Seconds] = _RETRY.max_s
    """Longest delay of our own; a provider's Retry-After may be longer."""
    max_attempts: AnyFile[Annotated[int, Field(ge=1, le=1_000)]] = _RETRY.max_attempts
    """Attempts a request, the first included; 1: never retry."""
    deadline_s: AnyFile[Seconds] = _RETRY.deadline_s
    """From a request's arrival; no attempt starts later."""
    budget_ratio: AnyFile[Annotated[float, Field(ge=0, le=100)]] = _RETRY.budget_ratio
    """Retries earned by each request."""

    _not_below_base = field_validator("max_s")(_not_below("retry", "base_s"))


class QueueSettings(Section):
    """The queue in front of the gate."""

    max_depth: AnyFile[Annotated[int, Field(ge=1, le=1_000_000)]] = _QUEUE.max_depth
    """Waiting requests in all."""
    max_wait_s: AnyFile[Seconds] = _QUEUE.max_wait_s
    """Longest wait before a request is refused."""
    ageing_s: AnyFile[Seconds] = _QUEUE.ageing_s
    """A priority class that waited this long competes one class higher."""
    fairness: AnyFile[Literal["roots", "agents"]] = _QUEUE.fairness
    """Equal shares for agents that none started, each with all that it started; or for all agents."""


class BudgetSettings(Section):
    """What agents may use until somebody decides otherwise."""

    tokens: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """Of each agent; unset: no limit."""
    dollars: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Likewise, by public prices."""
    pool_tokens: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """Of all agents together; unset: no limit."""
    pool_dollars: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Likewise, by public prices."""
    per: Literal["run", "day", "month", "ever"] = _BUDGET.per
    """What a budget counts that doesn't say: a run, a day, a month, or everything."""
    unpriced: Literal["estimate", "count", "refuse"] = _BUDGET.unpriced
    """A model without a known price, on a budget in dollars: price it as its provider's dearest, count no dollars, or
    refuse it."""


class CheckpointSettings(Section):
    """What is kept of an agent that is stopped, to go on from."""

    enabled: bool = True
    """Keep it."""
    max_mb: Annotated[int, Field(ge=1, le=1_024)] = 32
    """Largest conversation that is kept, in MiB."""
    keep: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Checkpoints an agent; older ones are removed."""


class JournalSettings(Section):
    """The journal: all that happens, a line each, to look at and to work with later."""

    enabled: bool = True
    """Write it."""
    bodies: bool = False
    """With what agents sent and were answered, without credentials; --record-bodies is the same."""
    max_mb: Annotated[int, Field(ge=1, le=65_536)] = 64
    """A part of a journal that is larger, in MiB, is followed by another."""
    max_hours: Annotated[float, Field(gt=0, le=8_760)] = 24.0
    """So is one that is older."""
    keep_days: Annotated[float, Field(gt=0, le=36_500)] = 14.0
    """Older ones are removed."""
    keep_mb: Annotated[int, Field(ge=1, le=16_777_216)] = 2_048
    """All journals together, in MiB; beyond that the oldest are removed."""

    _not_below_a_part = field_validator("keep_mb")(_not_below("journal", "max_mb"))


class McpSettings(Section):
    """The MCP server at /mcp, and `hivemind mcp`."""

    enabled: bool = True
    """Serve it."""
    read_only: bool = False
    """Tools may look and submit tasks without commands, but change no setting, priority or budget."""


class AgentSettings(Section):
    """Agents' names, and what an agent may say of itself."""

    require_name: bool = False
    """Refuse requests whose agent has no name of its own, in its path, its headers or by its token."""
    credentials: Annotated[Mapping[str, SecretStr], Field(json_schema_extra={"metavar": "JSON"})] = {}
    """A token for each agent, by name: who goes by that name must show it, and who shows it is that agent."""
    highest_priority: Literal["critical", "high", "normal", "low"] = "high"
    """The most urgent priority that a request may ask for itself."""
    hold_answers: Annotated[tuple[str, ...], Field(json_schema_extra={"metavar": "NAME"})] = ()
    """Agents whose streams are held until they are whole, each with its sub-agents; * means all. May be given more than
    once."""
    max_depth: Annotated[int, Field(ge=0, le=64)] = _PLACES.depth
    """Agents that hivemind run starts inside one another, the first included; deeper ones are refused. 0: no limit."""
    max_tree: Annotated[int, Field(ge=0, le=100_000)] = _PLACES.tree
    """Processes of one tree of agents, running or queued; further ones are refused. 0: no limit."""

    @field_validator("hold_answers", mode="before")
    @classmethod
    def _check_held(cls, value: Any) -> Any:
        """Split a variable's string at commas, and normalise the names."""
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            return value
        try:
            return tuple(normalised(name) for name in names if name.strip())
        except BadName as error:
            raise ValueError(str(error)) from None

    @field_validator("credentials", mode="wrap")
    @classmethod
    def _check_credentials(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Mapping[str, SecretStr]:
        """Read JSON from a flag or variable, and normalise the names. An error is one line, and repeats no token."""
        try:
            credentials = handler(json.loads(value) if isinstance(value, str) else value)
        except (ValidationError, json.JSONDecodeError, RecursionError):
            raise ValueError('must be a token for each agent\'s name, as in {"alice": "TOKEN"}') from None
        found: dict[str, SecretStr] = {}
        for text, token in credentials.items():
            try:
                name = normalised(text)
            except BadName as error:
                raise ValueError(f"number {len(found) + 1}: {error}") from None
            twin = spelled_in(found, name)
            if twin in found:
                raise ValueError(f"{twin} and {name} are one agent's name, so it can have one token only")
            if token in found.values():
                raise ValueError(f"{name} must have a token of its own")
            secret = token.get_secret_value()
            if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
                raise ValueError(f"the token of {name} must be printable ASCII without spaces, at least one character")
            found[name] = token
        return found


SHORTEST_SECRET = 16


class AlertSettings(Section):
    """Alerts: what the operator is told of by itself, and how."""

    died: bool = True
    """When an agent's process ended with an error, or by a signal that no operator sent."""
    wait_s: SecondsOrZero = _ALERTS.wait_s
    """When a request has waited this long; 0: never."""
    budget_share: Annotated[float, Field(ge=0, le=1)] = _ALERTS.budget_share
    """When this share of a budget is used; 0: never."""
    circuit_s: SecondsOrZero = _ALERTS.circuit_s
    """When a circuit has been open this long; 0: never."""
    dollars_per_hour: Annotated[float, Field(ge=0, le=1e9)] = _ALERTS.dollars_per_hour
    """When more is spent than this, by public prices; 0: never."""
    bell: AnyFile[bool] = True
    """The control room's terminal rings at a new alert."""
    desktop: AnyFile[bool] = True
    """The terminal shows a new alert as a notification of the desktop, if it can (OSC 9, OSC 777)."""
    title: AnyFile[bool] = True
    """The terminal's title is the verdict while the control room is open."""
    webhook: Annotated[SecretStr | None, Field(json_schema_extra={"metavar": "URL"})] = None
    """Where alerts are sent, http:// or https://. Better as HIVEMIND_ALERTS__WEBHOOK if it holds a secret."""
    webhook_secret: Annotated[SecretStr | None, Field(json_schema_extra={"metavar": "TEXT"})] = None
    """Signs what is sent there (HMAC-SHA256). Better as HIVEMIND_ALERTS__WEBHOOK_SECRET."""

    @field_validator("webhook")
    @classmethod
    def _check_webhook(cls, value: SecretStr | None) -> SecretStr | None:
        return http_url(value)

    @field_validator("webhook_secret")
    @classmethod
    def _check_secret(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < SHORTEST_SECRET:
            raise ValueError(f"must be at least {SHORTEST_SECRET} characters; make one with openssl rand -hex 16")
        return value

    def limits(self) -> AlertLimits:
        """Return the limits of the rules."""
        return AlertLimits(self.died, self.wait_s, self.budget_share, self.circuit_s, self.dollars_per_hour)


class FeatureSettings(Section):
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


def http_url(value: SecretStr | None) -> SecretStr | None:
    """Return the same URL. Raises: ValueError: it isn't one of HTTP."""
    if value is not None and not _is_http_url(value.get_secret_value()):
        raise ValueError("must be a URL with a host: http:// or https://, in printable ASCII without spaces")
    return value


def _is_http_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return valid and text.isascii() and text.isprintable() and " " not in text
