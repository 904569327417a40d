"""Log lines: on standard error, one line each, credentials masked."""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import TextIO

from hivemind.redaction.text import LONGEST_TEXT, redact
from hivemind.world.lines import SETTINGS
from hivemind.world.snapshot import Line

_LONGEST_TRACEBACK = 1 << 16
"""Most characters of a line with a traceback, at level debug."""


class LineFormatter(logging.Formatter):
    """One record, one line: `12:00:00 warning hivemind.proxy: what happened`.

    An exception is its type, its text and the place it was raised; at level debug the whole traceback is kept.
    """

    def __init__(self, *, tracebacks: bool = False) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        line = redact(super().format(record), _LONGEST_TRACEBACK if self._tracebacks else LONGEST_TEXT)
        return line if self._tracebacks else line.replace("\r", " ").replace("\n", " | ")

    def formatException(
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        if self._tracebacks or ei[1] is None:
            return super().formatException(ei)
        place, last = "", ei[2]
        while last is not None:
            place, last = f" at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}", last.tb_next
        return f"{type(ei[1]).__name__}: {ei[1]}{place}"


_LEVELS = {"bad": logging.WARNING, "warn": logging.INFO}


def log_line(line: Line) -> None:
    """Log a line of the event log: failures that an agent saw, and settings that don't count, as warnings; retries,
    operators' commands and how the proxy stands to its fleet as information."""
    told = line.by or (line.tag == "fleet" and line.level != "bad")
    level = logging.INFO if told else _LEVELS.get("bad" if line.tag == SETTINGS else line.level, logging.DEBUG)
    logging.getLogger("hivemind").log(level, "%s %s: %s", line.tag, line.who, line.text)


def quiet_uvicorn() -> None:
    """Drop uvicorn's information from all logs."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send log lines of `level` (`debug`, `info`, `warning`, `error`) and above to `stream`, else to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(tracebacks=level == "debug"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    quiet_uvicorn()
