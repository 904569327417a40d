"""`hivemind-mock`: the mock provider on a socket."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence

from hivemind.errors import HiveMindError, UsageError
from hivemind.parser import Parser, PrintCompletion
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import MockConfig
from hivemind_mock.provider.flags import add_flags, configured
from hivemind_mock.provider.formats import FORMATS
from hivemind_mock.provider.scenarios import SCENARIOS
from hivemind_mock.provider.serve import serving

_DESCRIPTION = (
    "A rate-limited, faulty LLM provider that speaks the formats of Anthropic, OpenAI, Azure, Google and Ollama. "
    "GET /_mock/stats counts what it has seen."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns the exit code."""
    try:
        return asyncio.run(_run(sys.argv[1:] if argv is None else argv))
    except HiveMindError as error:
        print(f"hivemind-mock: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"hivemind-mock: can't listen: {error.strerror}", file=sys.stderr)
        return 1


async def _run(argv: Sequence[str]) -> int:
    parser = Parser(prog="hivemind-mock", description=_DESCRIPTION)
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on [127.0.0.1]")
    parser.add_argument("--port", default="8766", metavar="N", help="port to listen on; 0 picks a free one [8766]")
    parser.add_argument("--scenario", metavar="NAME", help=f"begin with the provider of {', '.join(SCENARIOS)}")
    parser.add_argument("--print-completion", action=PrintCompletion)
    add_flags(parser)
    namespace = parser.parse_args(list(argv))
    config = configured(namespace, _base(namespace.scenario))
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serving(MockProvider(config), namespace.host, _port(namespace.port)) as url:
        print(f"hivemind-mock: ready on {url}", flush=True)
        await stop.wait()
    return 0


def _base(scenario: str | None) -> MockConfig:
    if scenario is None:
        return MockConfig()
    if scenario not in SCENARIOS:
        raise UsageError(f"--scenario: must be one of {', '.join(SCENARIOS)}, not {scenario!r}")
    return SCENARIOS[scenario].provider(seed=0, formats=tuple(FORMATS))


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise UsageError(f"--port: must be a whole number from 0 to 65535, not {text!r}")
    return int(text)
