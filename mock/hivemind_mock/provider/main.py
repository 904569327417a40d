"""`hivemind-mock`: the mock provider on a socket."""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec.structs import FieldInfo, fields

from hivemind.console import printable
from hivemind.errors import HiveMindError, UsageError
from hivemind.parser import Parser, PrintCompletion
from hivemind.providers.known import providers
from hivemind.records import names_of, replace
from hivemind.redaction.text import mask_arguments
from hivemind.settings.options import described
from hivemind.text.humanise import parse_number
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import SCENARIOS, FaultConfig, MockConfig
from hivemind_mock.provider.formats import FORMATS
from hivemind_mock.provider.serve import serving

_PARTS: dict[str, Any] = {name: kind for name, kind in get_type_hints(MockConfig).items() if names_of(kind)}
_FAULTS = {field.name for field in fields(FaultConfig) if not field.name.startswith("spell")} - {"edge"}
_SHARES = {"spike", "edge", "cache_read", "cache_write", "cache_1h", *_FAULTS}
_MOST = 1_000_000_000
_LEAST = {"window_s": 0.001, "event_tokens": 1}
_DESCRIPTION = (
    "A rate-limited, faulty LLM provider that speaks the formats of Anthropic, OpenAI, Azure, Google and Ollama. "
    "GET /_mock/stats counts what it has seen."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns the exit code."""
    args = sys.argv[1:] if argv is None else argv
    try:
        parser = _parser()
        namespace = parser.parse_args(list(args))
        config = _config(namespace)
        return asyncio.run(_run(namespace, config))
    except HiveMindError as error:
        print(f"hivemind-mock: {printable(mask_arguments(str(error), args))}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"hivemind-mock: can't listen: {error.strerror}", file=sys.stderr)
        return 1


def _parser() -> Parser:
    parser = Parser(prog="hivemind-mock", description=_DESCRIPTION)
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on [127.0.0.1]")
    parser.add_argument("--port", default="8766", metavar="N", help="port to listen on; 0 picks a free one [8766]")
    parser.add_argument("--scenario", metavar="NAME", help=f"begin with the provider of {', '.join(SCENARIOS)}")
    parser.add_argument("--print-completion", action=PrintCompletion)
    add_flags(parser)
    return parser


def _config(namespace: argparse.Namespace) -> MockConfig:
    base = MockConfig()
    if namespace.scenario is not None:
        scenario = SCENARIOS[_choice("--scenario", tuple(SCENARIOS), namespace.scenario)]
        base = scenario.provider(seed=0, formats=tuple(FORMATS))
    return configured(namespace, base)


async def _run(namespace: argparse.Namespace, config: MockConfig) -> int:
    port = _number("--port", int, namespace.port, 0, 65_535)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    offset_s = time.time() - loop.time()
    provider = MockProvider(config, clock=loop.time, wall=lambda: offset_s + loop.time())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serving(provider, namespace.host, port) as url:
        print(f"hivemind-mock: ready on {url}", flush=True)
        await stop.wait()
    return 0


_SPOKEN = tuple(provider.name for provider in providers() if provider.refusals)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--seed`, `--format` and a flag for every field, such as `--rpm` or `--reply-tokens`."""
    parser.add_argument("--seed", metavar="N", help="the same seed and order of requests repeat a run [0]")
    parser.add_argument(
        "--format", action="append", metavar="NAME", help=f"serve only this one: {', '.join(FORMATS)}, or any [any]"
    )
    parser.add_argument(
        "--words", metavar="PROVIDER", help=f"refuse in this one's recorded words: {', '.join(_SPOKEN)} [the format's]"
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
    total = sum(getattr(changes["faults"], name) for name in _FAULTS)
    if total > 1 + 1e-9:
        raise UsageError(f"the fault probabilities add up to {total:g}, which is more than 1")
    if changes["reply"].cache_read + changes["reply"].cache_write > 1:
        raise UsageError("--cache-read and --cache-write: add up to more than 1")
    if given["seed"] is not None:
        changes["seed"] = _value("--seed", "seed", int, given["seed"])
    if given["words"] is not None:
        changes["words"] = _choice("--words", _SPOKEN, given["words"])
    return replace(base, formats=_formats(given["format"], base), **changes)


def _flag(part: str, name: str) -> str:
    """The field's name, with the part's in front where it would say too little alone."""
    vague = name in ("tokens", "spread", "window", "window_s", "base_s", "jitter_s", "encoding", "event_tokens")
    return "--" + (f"{part}-{name}" if vague else name).replace("_", "-").replace("limits-", "")


def _help(config: type[Any], field: FieldInfo) -> str:
    default = field.default
    shown = ("yes" if default else "no") if isinstance(default, bool) else default if isinstance(default, str) else None
    return f"{described(config, field.name).removesuffix('.')} [{shown or f'{default:g}'}]"


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
    return _number(flag, kind, text, _LEAST.get(name, 0), 1.0 if name in _SHARES else _MOST)


def _number(flag: str, kind: Any, text: str, least: float, most: float) -> Any:
    try:
        # An `m` after seconds would be minutes.
        number = float(text) if flag.endswith("-s") else parse_number(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most or (kind is int and number != int(number)):
        what = "whole number" if kind is int else "number"
        raise UsageError(f"{flag}: must be a {what} from {least:g} to {most:g}, not {text!r}")
    return kind(number)


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
