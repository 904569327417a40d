"""`hivemind proxy`: the proxy, without a screen."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from hivemind.cli.plugin import Command
from hivemind.settings import Settings, add_flags, forget_secrets, from_flags, settings_file


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s --upstream URL [setting ...]"
    add_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    settings = from_flags(namespace, environ=os.environ, cwd=Path.cwd(), quiet=True)
    forget_secrets()
    file = settings_file(namespace, environ=os.environ, cwd=Path.cwd())
    settings.origins()
    return serve(settings, file)


def serve(settings: Settings, file: Path) -> int:
    """Serve in the foreground until a signal; returns the exit code. Raises: HiveMindError."""
    from hivemind import logs
    from hivemind.host import server
    from hivemind.host.loop import run_loop

    logs.configure(settings.log_level)
    return run_loop(server.run(settings, file))


command = Command(_configure, _run)
