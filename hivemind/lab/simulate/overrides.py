"""What-if changes of settings: parsed from text or a scenario's file, and applied to a recording's configuration."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from hivemind.errors import UsageError
from hivemind.lab.simulate.questions import Question, all_names, canonical, is_question, question
from hivemind.providers.profiles import GENERIC, PROFILES
from hivemind.records import replace
from hivemind.scheduler.commands import SetBudget, SetPriority
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.scheduler.types import Priority
from hivemind.settings.checks import checked_as, one_checked
from hivemind.settings.model import Settings
from hivemind.settings.options import Option, find, options, typed
from hivemind.settings.sections import BadSetting
from hivemind.text.amounts import parse_budget, shell_hint
from hivemind.text.humanise import did_you_mean, listed

Config = TypeVar("Config", SchedulerConfig, LaneConfig)

_LANE = frozenset({"aimd", "circuit", "max_concurrency", "max_concurrency_per_upstream", "rpm", "tpm"})
"""Settings and sections of lanes; the others are the scheduler's."""
_SCHEDULER = frozenset({"retry", "queue", "budget", "features", "max_agents", "agent_idle_s"})
_SYMBOLS: Mapping[str, str] = {
    "c_max": "max_concurrency",
    "c_min": "aimd.floor",
    "l_target": "aimd.latency_target_s",
    "tau": "circuit.threshold",
    "t_cool": "circuit.cooldown_s",
    "d_base": "retry.base_s",
    "d_max": "retry.max_s",
}
"""The paper's symbols."""
_AGENT = re.compile(r"agent\.(?P<agent>.+)\.(?P<what>priority|budget)", re.IGNORECASE)
_UNSET = ("unset", "default")
_NONE = ("none", "off", "no")


class Change(Struct, frozen=True):
    """A new value of a setting."""

    name: str
    """A setting such as `aimd.beta` or `features.admission`; `agent.alice.priority`, `agent.alice.budget`; or one of
    :mod:`~hivemind.lab.simulate.questions`, such as `provider.limits`."""
    value: float | bool | str | None
    """None: unset, so that the provider's profile or the default applies."""

    def __str__(self) -> str:
        return f"{self.name}={value_text(self.value)}"


def value_text(value: float | bool | str | None) -> str:
    """Return a value as it is typed."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


@cache
def names() -> tuple[str, ...]:
    """Return every setting that can be changed, in the order of `hivemind proxy --help`."""
    return tuple(option.key for option in options() if option.path[0] in _LANE | _SCHEDULER)


def parse_changes(texts: Sequence[str]) -> tuple[Change, ...]:
    """Parse texts of the form `NAME=VALUE`; of two with the same name the later one counts.

    Raises: UsageError: with a suggested name, or the allowed range.
    """
    return tuple({change.name: change for change in map(_parsed, texts)}.values())


def setting_named(name: str) -> str:
    """Return the setting of a name, which may be the paper's. Raises: UsageError: none that a simulation uses."""
    return _option(name).key


def apply_changes(
    changes: Iterable[Change], scheduler: SchedulerConfig, lane: LaneConfig
) -> tuple[SchedulerConfig, LaneConfig]:
    """Return both configurations with the changes. Raises: UsageError: a change contradicts other settings."""
    changed = set()
    for change in changes:
        section, _, key = change.name.rpartition(".")
        if _AGENT.fullmatch(change.name) or is_question(change.name):
            continue
        changed.add(section)
        if (section or key) in _LANE:
            lane = _on_lane(lane, section, key, change.value)
        else:
            scheduler = _within(scheduler, section, key, change.value)
    text = ", ".join(map(str, changes))
    for section in changed - {"", "features"}:
        _check(section, getattr(lane if section in _LANE else scheduler, section), text)
    return scheduler, lane


def agent_commands(changes: Iterable[Change]) -> tuple[SetPriority | SetBudget, ...]:
    """Return changes of single agents as commands given at the start."""
    commands: list[SetPriority | SetBudget] = []
    for change in changes:
        match = _AGENT.fullmatch(change.name)
        if match is None:
            continue
        if match["what"] == "priority":
            commands.append(SetPriority(match["agent"], Priority[str(change.value).upper()]))
        else:
            wanted = parse_budget(str(change.value))
            commands.append(SetBudget(match["agent"], wanted.tokens, wanted.dollars, wanted.per))
    return tuple(commands)


def questions(changes: Iterable[Change]) -> tuple[Question, ...]:
    """Return the changes that ask about more than settings."""
    return tuple(question(change.name, str(change.value)) for change in changes if is_question(change.name))


def value_in(name: str, scheduler: SchedulerConfig, lane: LaneConfig) -> float | bool | str | None:
    """Return the value of a setting, one of :func:`names`, in these configurations."""
    section, _, key = name.rpartition(".")
    held: Any = lane if (section or key) in _LANE else scheduler
    if section not in ("", "features"):
        held = getattr(held, section)
    value: float | bool | str | None = getattr(held, key)
    return value


def _parsed(text: str) -> Change:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name or not value:
        raise UsageError(f"{text.strip()[:60]}: must be NAME=VALUE, as in aimd.beta=0.7 or max_concurrency=8")
    if is_question(name):
        return Change(*canonical(question(name, value)))
    match = _AGENT.fullmatch(name)
    if match is None:
        option = _option(name)
        return Change(option.key, _value(option, value))
    name = f"agent.{match['agent']}.{match['what'].lower()}"
    if name.endswith("priority"):
        levels = [each.name.lower() for each in Priority]
        if value.lower() not in levels:
            raise UsageError(f"{name} {value[:40]}: must be {listed(levels)}")
        return Change(name, value.lower())
    try:
        wanted = parse_budget(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}{shell_hint(value)}") from None
    if wanted.more:
        raise UsageError(f"{name} {value[:40]}: must be a whole budget; there is none yet that could be more")
    return Change(name, value.lower())


def _option(name: str) -> Option:
    """Find a setting. Raises: UsageError: there is none, or a simulation doesn't use it."""
    plain = name.lower().lstrip("-").replace("-", "_")
    meant = _meant(plain)
    if len(meant) == 1 and (option := find(tuple(meant[0].split(".")))) is not None:
        return option
    if meant:
        raise UsageError(f"{name}: is {' or '.join(meant)}; say which")
    if find(tuple(plain.split("."))) is not None:
        raise UsageError(f"{name}: makes no difference to a simulation; what does is {_all_names()}")
    ends = {each.rpartition(".")[2]: each for each in names()}
    hint = did_you_mean(plain, names()) or (did_you_mean(plain, ends) if "." not in plain else "")
    raise UsageError(f"{name}: no such setting{hint or f'; there are {_all_names()}'}")


def _meant(plain: str) -> list[str]:
    """Return the settings that a name may mean: an exact one, else by the paper's name, else by its last part."""
    if plain in _SYMBOLS:
        return [_SYMBOLS[plain]]
    section, _, key = plain.rpartition(".")
    if plain in names():
        return [plain]
    for ending in ("", "_s"):
        wanted = [f"{section}.{key}{ending}".lstrip(".")]
        if not section:
            wanted += [each for each in names() if each.rpartition(".")[2] == key + ending]
        if matching := sorted(set(wanted).intersection(names())):
            return matching
    return []


def _all_names() -> str:
    sections = sorted({name.partition(".")[0] + ".*" for name in names() if "." in name})
    asked = dict.fromkeys(name.partition(".")[0] + (".*" if "." in name else "") for name in all_names())
    return ", ".join([*(name for name in names() if "." not in name), *sections, *asked])


def _value(option: Option, text: str) -> float | bool | str | None:
    lowered = text.lower()
    if lowered in _UNSET and option.default is None:
        return None
    if lowered in _NONE and option.key.startswith("budget.") and option.default is None:
        return None
    if lowered in _NONE and option.key in KNOBS and KNOBS[option.key].zero_is_none:
        return 0
    if option.key.startswith("budget.") and option.default is None:
        text = _amount(text, dollars=option.kind is float)
    elif option.choices or option.kind is bool:
        text = lowered
    try:
        value: float | bool | str = one_checked(option.path, typed(option, text))
    except BadSetting:
        tail = f"; {_UNSET[0]}: the default applies" if option.default is None else ""
        raise UsageError(f"{option.key} {text[:40]}: must be {option.allowed}{tail}") from None
    return value


def _amount(text: str, *, dollars: bool) -> str:
    """Return the number of a budget typed as `50k` or `$5`; any other text unchanged."""
    try:
        wanted = parse_budget(text)
    except ValueError:
        return text
    amount = wanted.dollars if dollars else wanted.tokens
    other = wanted.tokens if dollars else wanted.dollars
    return text if amount is None or other is not None or wanted.more or wanted.per else f"{amount!r}"


def _on_lane(lane: LaneConfig, section: str, key: str, value: Any) -> LaneConfig:
    profile = PROFILES.get(lane.provider, GENERIC)
    if section:
        return _within(lane, section, key, getattr(getattr(profile, section), key) if value is None else value)
    values: dict[str, Any] = {key: getattr(profile, key, 0) if value is None else value}
    if key in ("rpm", "tpm"):
        values[f"{key}_binding"] = bool(value)
    return replace(lane, **values)


def _within(config: Config, section: str, key: str, value: Any) -> Config:
    """Return a configuration with a setting of a section; features are no section there."""
    if section in ("", "features"):
        values: dict[str, Any] = {key: value}
    else:
        values = {section: replace(getattr(config, section), **{key: value})}
    return replace(config, **values)


def _check(section: str, part: Any, changes: str) -> None:
    kind = type(getattr(Settings(), section))
    try:
        checked_as(kind, {name: value for name, value in asdict(part).items() if name in kind.__struct_fields__})
    except BadSetting as error:
        name = ".".join((section, *error.path))
        why = error.why or "is out of its range"
        raise UsageError(f"{changes}: contradicts other settings: {name} {why}; change both") from None


def scenario(path: Path) -> list[str]:
    """Return the changes of a scenario file as `NAME=VALUE`. It is TOML in the form of `hivemind.toml`:

    max_concurrency = 8
    agents = "x2"
    [provider]
    limits = "x2"
    outage = "5m@10m"
    [agent.alice]
    priority = "high"

    Raises: UsageError: it can't be read, or holds none. The caller names the file.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(error.strerror or str(error)) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"can't be read as TOML: {error}") from None
    texts = list(_flat(table, ""))
    if not texts:
        raise UsageError("changes nothing; it holds settings, such as max_concurrency = 8")
    return texts


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            yield f"{prefix}{key}={'on' if value else 'off'}"
        elif isinstance(value, int | float | str):
            yield f"{prefix}{key}={value}"
        else:
            raise UsageError(f"{prefix}{key} must be a text, a number, true or false")
