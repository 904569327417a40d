"""Opening a proxy's journal as the settings define it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hivemind import __version__
from hivemind.journal.records import JournalBegan
from hivemind.journal.write.recorder import WAITING_MOST, Limits, Recorder
from hivemind.journal.write.segment import Retention, begin, prune
from hivemind.journal.write.writer import Writer

if TYPE_CHECKING:
    from hivemind.proxy.engine import Engine
    from hivemind.settings import Settings

_log = logging.getLogger(__name__)

_HOUR_S = 3600.0
_WAITING_WITH_BODIES = 64 << 20
"""Bytes that may wait for the disk, where bodies are recorded."""


def begin_recording(
    folder: Path,
    settings: Settings,
    engine: Engine,
    address: str,
    upstreams: tuple[tuple[str, str], ...],
    wall: Callable[[], float],
) -> Recorder | None:
    """Record everything from now on in a new journal in that folder.

    Return None where it can't be created, which is logged: the proxy runs without one.
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
    keeping = Retention(given.keep_days * 24 * _HOUR_S, given.keep_mb << 20)
    began = JournalBegan(
        engine.now(),
        wall(),
        name,
        1,
        f"hivemind {__version__}",
        address,
        upstreams,
        settings.scheduler_config(),
        given.bodies,
    )
    waiting = _WAITING_WITH_BODIES if given.bodies else WAITING_MOST
    recorder = Recorder(
        Writer(part, tidy=functools.partial(prune, keeping=keeping, wall=wall)),
        began,
        Limits(given.max_mb << 20, given.max_hours * _HOUR_S, waiting),
        take=engine.world.take,
        tell=engine.publish,
        wall=wall,
    )
    engine.record = recorder.record
    return recorder
