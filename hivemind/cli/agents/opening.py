"""The session with a proxy, as the flags of a command that runs agents say."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from hivemind.agents.session import Say, Session, open_session
from hivemind.console import print_note
from hivemind.settings import Settings, settings_file
from hivemind.settings.options import given_flags


def session_by_flags(
    namespace: argparse.Namespace, settings: Settings, *, environ: Mapping[str, str], say: Say
) -> AbstractAsyncContextManager[Session]:
    """Return the context of a session with the proxy that the flags name, the one that runs, or one that is started."""
    given = vars(namespace)  # `resume` has fewer flags
    token_file = given.get("token_file")
    return open_session(
        settings,
        environ=environ,
        say=say,
        attach=given.get("attach"),
        token_file=None if token_file is None else Path(token_file),
        settings_file=settings_file(namespace, environ=os.environ, cwd=Path.cwd()),
        to=given.get("to"),
        hold_answers=given.get("hold_answers", False),
    )


def most_given(namespace: argparse.Namespace, settings: Settings) -> int:
    """Return how many agents at once `--max-agents` allows; 0: it isn't given, and settings are for the proxy."""
    return settings.max_agents if "max_agents" in given_flags(namespace) else 0


def write_report(file: Path, values: Mapping[str, object]) -> None:
    """Write the file of `--report`; where it can't be written, the command has run, and its exit code counts."""
    try:
        file.write_text(json.dumps(values, indent=2) + "\n", "utf-8")
    except OSError as error:
        print_note(f"--report {file}: can't be written ({error.strerror})")
