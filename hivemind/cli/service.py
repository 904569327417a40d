"""`hivemind setup service`: the proxy as a service of the user."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.console import print_note
from hivemind.errors import HiveMindError, UsageError

if TYPE_CHECKING:
    from hivemind.setup.service import Manager, Service

MANAGERS = ("systemd", "launchd")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `setup service`."""
    group = parser.add_argument_group("service: the proxy as a service of yours, by systemd or launchd")
    group.add_argument("--manager", choices=MANAGERS, metavar="|".join(MANAGERS), help="which one [this system's]")
    group.add_argument("--install", action="store_true", help="write the file, rather than print it")


def run_service(namespace: argparse.Namespace) -> int:
    """Print the file, or write it; returns the exit code. Raises: HiveMindError: it can't be written."""
    from hivemind.settings import load
    from hivemind.settings_file import find_settings_file
    from hivemind.setup.service import service
    from hivemind.store.trust import read_found

    settings = load([], environ=os.environ, cwd=Path.cwd(), quiet=True)
    named = os.environ.get("HIVEMIND_CONFIG")
    file = Path(named).absolute() if named else find_settings_file(Path.cwd())
    if file is not None and not named and not read_found(file).trusted:
        raise UsageError(f"{file} isn't trusted, and the service would take it as it is; to trust it: hivemind trust")
    command = [_program(), "up", *(() if file is None else ("--config", str(file)))]
    manager: Manager = namespace.manager or ("launchd" if sys.platform == "darwin" else "systemd")
    made = service(manager, command, settings.drain_s, Path.home(), os.environ)
    if namespace.install:
        _write(made)
        print(f"hivemind: {made.path} is written; to start it, now and at each login:")
    else:
        sys.stdout.write(made.text)
        sys.stdout.flush()
        print_note(f"that is {made.path}, which --install writes; to start it then, now and at each login:")
    out = sys.stdout if namespace.install else sys.stderr
    print("\n".join(f"  {line}" for line in made.start), file=out)
    print(f"to take it away: {'; '.join(made.stop)}\n{made.more}", file=out)
    return 0


def _program() -> str:
    """Return the path of this program. Raises: UsageError."""
    beside = Path(sys.executable).with_name("hivemind")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("hivemind")
    if found is None:
        raise UsageError("the program hivemind isn't in PATH, so a service couldn't start it")
    return os.path.abspath(found)


def _write(made: Service) -> None:
    from hivemind.store.atomic import written_whole

    try:
        if made.path.exists() and not made.replaces(made.path.read_text("utf-8", "replace")):
            raise HiveMindError(f"{made.path} is there already, and not by this command; remove it first")
        made.path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(made.path, 0o644) as file:
            file.write(made.text.encode())
    except OSError as error:
        raise HiveMindError(f"{error.filename}: can't be written ({error.strerror})") from None
