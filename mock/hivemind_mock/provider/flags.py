"""The mock provider's configuration as command line flags: one flag a field, grouped as the configuration is."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import Field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hivemind.errors import UsageError
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.formats import FORMATS

_PARTS: Mapping[str, type[Any]] = {
    "limits": LimitConfig,
    "latency": LatencyConfig,
    "faults": FaultConfig,
    "reply": ReplyConfig,
}
_SHARES = {"spike", "edge", *(field.name for field in fields(FaultConfig) if not field.name.startswith("spell"))}
_MOST = 1_000_000_000
_LEAST = {"window_s": 0.001, "event_tokens": 1}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--seed`, `--format` and a flag for every field, such as `--rpm`, `--bad-gateway` or `--reply-tokens`."""
    parser.add_argument("--seed", metavar="N", help="the same seed and order of requests repeat a run [0]")
    parser.add_argument(
        "--format", action="append", metavar="NAME", help=f"serve only this one: {', '.join(FORMATS)}, or any [any]"
    )
    for part, config in _PARTS.items():
        group = parser.add_argument_group(part, config.__doc__)
        kinds = get_type_hints(config)
        for field in fields(config):
            group.add_argument(
                _flag(part, field.name),
                dest=f"{part}.{field.name}",
                metavar=_placeholder(field.name, kinds[field.name]),
                help=_help(config, field),
            )


def configured(namespace: argparse.Namespace, base: MockConfig) -> MockConfig:
    """`base` with what the flags say in its place.

    Raises: UsageError: a value can't be used; the text names its flag.
    """
    given = vars(namespace)
    changes: dict[str, Any] = {}
    for part, config in _PARTS.items():
        kinds = get_type_hints(config)
        values = {
            field.name: _value(_flag(part, field.name), field.name, kinds[field.name], text)
            for field in fields(config)
            if (text := given[f"{part}.{field.name}"]) is not None
        }
        changes[part] = replace(getattr(base, part), **values)
    total = sum(getattr(changes["faults"], name) for name in _SHARES - {"spike", "edge"})
    if total > 1 + 1e-9:
        raise UsageError(f"the fault probabilities add up to {total:g}, which is more than 1")
    if given["seed"] is not None:
        changes["seed"] = _value("--seed", "seed", int, given["seed"])
    return replace(base, formats=_formats(given["format"], base), **changes)


def _flag(part: str, name: str) -> str:
    """The field's name, with the part's in front where it would say too little alone."""
    vague = name in ("tokens", "spread", "window", "window_s", "base_s", "jitter_s", "encoding", "event_tokens")
    return "--" + (f"{part}-{name}" if vague else name).replace("_", "-").replace("limits-", "")


def _help(config: type[Any], field: Field[Any]) -> str:
    default = field.default
    shown = ("yes" if default else "no") if isinstance(default, bool) else default if isinstance(default, str) else None
    return f"{config.__pydantic_fields__[field.name].description.removesuffix('.')} [{shown or f'{default:g}'}]"


def _placeholder(name: str, kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    if kind is bool:
        return "yes|no"
    return "0..1" if name in _SHARES else "SECONDS" if name.endswith("_s") else "N"


def _value(flag: str, name: str, kind: Any, text: str) -> Any:
    if get_origin(kind) is Literal:
        return _choice(flag, get_args(kind), text)
    if kind is bool:
        return _choice(flag, ("yes", "no"), text) == "yes"
    least, most = _LEAST.get(name, 0), 1.0 if name in _SHARES else _MOST
    try:
        number = kind(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        what = "whole number" if kind is int else "number"
        raise UsageError(f"{flag}: must be a {what} from {least:g} to {most:g}, not {text!r}")
    return number


def _choice(flag: str, choices: tuple[str, ...], text: str) -> str:
    if text not in choices:
        raise UsageError(f"{flag}: must be one of {', '.join(choices)}, not {text!r}")
    return text


def _formats(names: list[str] | None, base: MockConfig) -> tuple[str, ...]:
    if names is None:
        return base.formats
    if "any" in names:
        return tuple(FORMATS)
    return tuple(_choice("--format", tuple(FORMATS), name) for name in dict.fromkeys(names))
