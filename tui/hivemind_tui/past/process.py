"""The client of the process that reads the last hours."""

from __future__ import annotations

import sys

from hivemind_tui.loop.child import AskedProcess
from hivemind_tui.past.protocol import MESSAGES, Message, PastFailed, PastProgress, ReadPast

_COMMAND = (sys.executable, "-P", "-m", "hivemind_tui.past.worker")


class PastProcess(AskedProcess[ReadPast, Message]):
    """The child that reads the last hours."""

    def __init__(self, command: tuple[str, ...] = _COMMAND) -> None:
        super().__init__(command, MESSAGES, PastProgress, PastFailed, "the reading of the journal")
