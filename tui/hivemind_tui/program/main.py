"""`hivemind-tui`: the proxy and its control room in one process, on one event loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from hivemind import __version__
from hivemind.console import Console, print_note
from hivemind.errors import UsageError
from hivemind.records import replace
from hivemind_tui.loop.gc_pacing import Collector
from hivemind_tui.program import preferences
from hivemind_tui.program.headless import print_journal
from hivemind_tui.program.sessions import Options, RemoteProxy, run_session
from hivemind_tui.render import capabilities as terminal
from hivemind_tui.sources.demo import Demo

if TYPE_CHECKING:
    import argparse

    from hivemind.settings import Settings

STORES = ("redis://", "rediss://", "valkey://", "valkeys://", "unix://")
"""What the URL of a fleet's store begins with."""
_OF_REPLAYS = {"state_dir", "log_level"}
"""Settings that mean something where no proxy runs."""


def parse(argv: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Options:
    """Read flags, variables and file. Raises: UsageError."""
    from hivemind.settings import FIRST_UPSTREAMS, from_flags, settings_file

    parser = _parser()
    namespace = parser.parse_args(list(argv))
    serves = namespace.replay is None and namespace.attach is None
    settings = from_flags(namespace, environ=environ, cwd=cwd, quiet=serves)
    monitor: Path | None = namespace.monitor
    if namespace.replay is not None:
        return Options(settings, monitor=monitor, replay=_journal(namespace, settings))
    if namespace.attach is not None:
        return Options(settings, monitor=monitor, remote=_remote(namespace, settings, environ))
    if namespace.token_file is not None:
        parser.error("--token-file: only goes with --attach")
    file = settings_file(namespace, environ=environ, cwd=cwd)
    if namespace.demo:
        if not 0 <= namespace.demo_agents <= 1000:
            parser.error(f"--demo-agents {namespace.demo_agents}: must be from 0 to 1000")
        return Options(settings, file, Demo(namespace.demo_agents, namespace.seed), monitor)
    settings.check_upstream()
    if not settings.upstream and not has_screen():
        raise UsageError("no upstream: say where requests go with --upstream https://api.anthropic.com, or try --demo")
    first_run = not settings.upstream
    if first_run:
        settings = replace(settings, upstream=FIRST_UPSTREAMS)
    settings.origins()
    return Options(settings, file, monitor=monitor, first_run=first_run)


def _parser() -> argparse.ArgumentParser:
    from hivemind.parser import PrintCompletion
    from hivemind.settings import Parser, add_flags

    parser = Parser(
        prog="hivemind-tui",
        usage="%(prog)s [--upstream URL | --demo | --attach URL | --replay FILE] [setting ...]",
        description="The proxy and its control room, in which ? lists the keys. With nothing set, requests go by the"
        " API that their path belongs to: to Anthropic, OpenAI or Google. Without a terminal: no screen, but lines.",
    )
    usual = Demo()
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--print-completion", action=PrintCompletion)
    help_ = "at the end, write how long the screen held the traffic up (JSON)"
    parser.add_argument("--monitor", type=Path, metavar="FILE", help=help_)
    attach = parser.add_argument_group("a remote proxy")
    help_ = "show and steer the proxy at this address, or at redis://HOST all of a fleet; leaving doesn't stop it"
    attach.add_argument("--attach", metavar="URL", help=help_)
    help_ = "where its control token is noted, if not in the usual place"
    attach.add_argument("--token-file", type=Path, metavar="FILE", help=help_)
    recorded = parser.add_argument_group("a recording")
    help_ = "play a journal back: a path, its name, the beginning of that, or latest"
    recorded.add_argument("--replay", metavar="FILE", help=help_)
    demo = parser.add_argument_group("demo")
    demo.add_argument("--demo", action="store_true", help="watch mock agents live through a mock provider's bad day")
    help_ = f"how many of them [{usual.agents}]"
    demo.add_argument("--demo-agents", type=int, default=usual.agents, metavar="N", help=help_)
    help_ = f"of the demo's faults and agents [{usual.seed}]"
    demo.add_argument("--seed", type=int, default=usual.seed, metavar="N", help=help_)
    add_flags(parser)
    return parser


def _remote(namespace: argparse.Namespace, settings: Settings, environ: Mapping[str, str]) -> RemoteProxy:
    """Return the proxy that --attach names. Raises: UsageError: flags of a proxy of our own stand beside it."""
    from hivemind.settings.options import given_flags

    others = {"--demo": namespace.demo, "--upstream": "upstream" in given_flags(namespace)}
    _refuse(others, "doesn't go with --attach, which shows a proxy that runs already")
    environ = dict(environ)
    if settings.control_token is not None:
        environ["HIVEMIND_CONTROL_TOKEN"] = settings.control_token.reveal()
    if settings.state_dir is not None:
        environ["HIVEMIND_STATE_DIR"] = str(settings.state_dir)
    store = namespace.attach.strip().lower().startswith(STORES)
    if store and namespace.token_file is not None:
        raise UsageError("--token-file: is for a proxy, and --attach names a fleet's store")
    return RemoteProxy(namespace.attach, namespace.token_file, environ, store, settings.ca_file)


def _journal(namespace: argparse.Namespace, settings: Settings) -> Path:
    """Return the journal that --replay names. Raises: UsageError: there is none, or other flags stand beside it."""
    from hivemind.journal.files import find
    from hivemind.journal.importers.foreign import is_recording
    from hivemind.settings.options import given_flags
    from hivemind.store.token_file import state_dir

    others = {"--attach": namespace.attach, "--token-file": namespace.token_file, "--demo": namespace.demo}
    others |= {f"--{key.replace('_', '-')}": True for key in sorted(given_flags(namespace).keys() - _OF_REPLAYS)}
    _refuse(others, "doesn't go with --replay, which shows what was recorded")
    folder = state_dir(settings.state_dir)
    if not is_recording(namespace.replay):
        return find(namespace.replay, folder)
    from hivemind.journal.importers.making import journal_of

    made = journal_of([namespace.replay], folder)
    for line in made.notes:
        print_note(line)
    return made.path


def _refuse(flags: Mapping[str, object], why: str) -> None:
    for flag, given in flags.items():
        if given:
            raise UsageError(f"{flag}: {why}")


def has_screen() -> bool:
    """Return whether there is a terminal to draw on and to read keys from."""
    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "") != "dumb"


def run(options: Options, collector: Collector) -> int:
    """Run the program; returns the exit code. Raises: HiveMindError."""
    with_screen = has_screen()
    if options.monitor is not None:
        _check_monitor(options.monitor, with_screen)
    if options.replay is not None and not with_screen:
        print_journal(options.replay)
        return 0
    if with_screen:
        options = with_preferences(options)
    from hivemind import logs
    from hivemind.host.loop import run_loop

    console = Console(sys.stderr)
    logs.configure(options.settings.log_level, cast(TextIO, console))
    stuck = False
    try:
        stuck = run_loop(run_session(options, console, collector, with_screen=with_screen))
    finally:
        stuck = not console.close() or stuck
    if stuck:
        # The terminal takes nothing more, and Python would wait for it while it flushes.
        os._exit(0)
    return 0


def with_preferences(options: Options) -> Options:
    """Return the options with what the screen's own file says; its theme holds unless the environment names one.

    Raises: UsageError: the file or the environment is wrong.
    """
    found = preferences.read(os.environ)
    if found.theme and not os.environ.get(terminal.VARIABLE):
        os.environ[terminal.VARIABLE] = found.theme
    terminal.prepare(os.environ)
    return options._replace(preferences=found)


def _check_monitor(file: Path, with_screen: bool) -> None:
    if not with_screen:
        raise UsageError(
            "--monitor watches the screen, and there is none: standard input and output must be a terminal"
        )
    try:
        file.touch()
    except OSError as error:
        raise UsageError(f"--monitor {file}: can't be written ({error.strerror})") from None
