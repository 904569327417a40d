"""A proxy's journal: begun as the settings want it, beside its state."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hivemind import __version__
from hivemind.journal.records import JournalBegan
from hivemind.journal.write.bodies import Bodies
from hivemind.journal.write.recorder import WAITING_MOST, Limits, Recorder
from hivemind.journal.write.rotation import Keeping, begin, prune
from hivemind.journal.write.writer import Writer
from hivemind.settings.secrets import own_credentials
from hivemind.world.snapshot import RecordingView

if TYPE_CHECKING:
    from hivemind.proxy.engine import Engine
    from hivemind.settings import Settings

_log = logging.getLogger(__name__)

_HOUR_S = 3600.0
_WITH_BODIES = 64 << 20
"""Bytes that wait for the disk, where bodies are written."""


def begin_recording(
    folder: Path,
    settings: Settings,
    engine: Engine,
    address: str,
    upstreams: tuple[tuple[str, str], ...],
    wall: Callable[[], float],
) -> Recorder | None:
    """Record everything that happens from now on in a new journal in that folder.

    None where it can't be made, which is logged: the proxy goes on without.
    """
    given = settings.journal
    try:
        name, part = begin(folder, wall(), urlsplit(address).port or settings.port)
    except OSError as error:
        _log.warning(
            "no journal can be written (%s: %s), so this run can't be looked at later; choose another folder with"
            " --state-dir",
            error.filename or folder,
            error.strerror,
        )
        return None
    keeping = Keeping(given.keep_days * 24 * _HOUR_S, given.keep_mb << 20)
    recorder = Recorder(
        Writer(part, tidy=functools.partial(prune, keeping=keeping, wall=wall)),
        JournalBegan(
            engine.now(),
            wall(),
            name,
            1,
            f"hivemind {__version__}",
            address,
            upstreams,
            settings.scheduler_config(),
            given.bodies,
        ),
        Limits(given.max_mb << 20, given.max_hours * _HOUR_S, _WITH_BODIES if given.bodies else WAITING_MOST),
        take=engine.world.take,
        tell=engine.tell,
        wall=wall,
    )
    engine.record = recorder.record
    return recorder


def never_begun(folder: Path) -> RecordingView:
    """What is shown where a journal was wanted and couldn't be made."""
    return RecordingView(str(folder), 0, 0, "its file couldn't be made")


def bodies_for(recorder: Recorder | None, settings: Settings, engine: Engine) -> Bodies | None:
    """What hears bodies, where they are to be recorded."""
    if recorder is None or not settings.journal.bodies:
        return None
    return Bodies(recorder, engine.now, own_credentials(settings))
