"""Log lines about requests that are scheduled although no dialect knows their path."""

from __future__ import annotations

import logging
import re

from hivemind.redaction.text import redact

_log = logging.getLogger(__name__)

MOST_SHAPES = 100
"""Shapes of paths that are logged and remembered."""
_MOST_SEGMENTS = 8
_WORD = re.compile(r"(?:v\d+[a-z]*\d*|[A-Za-z][A-Za-z_-]{0,31})(?::[A-Za-z]{1,32})?", re.ASCII)
"""A segment that belongs to an API; any other may be an id or a name."""


class UnknownPaths:
    """Logs each shape of path once, so that an operator learns what is scheduled by a guess at its size."""

    __slots__ = ("_logged",)

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def report(self, method: str, path: str) -> None:
        """Log the path's shape, unless it was or enough were."""
        if len(self._logged) >= MOST_SHAPES:
            return
        shape = f"{method} {shape_of(path)}"
        if shape in self._logged:
            return
        self._logged.add(shape)
        _log.info("%s: unknown path, scheduled as unknown: its cost is estimated by its size", shape)
        if len(self._logged) == MOST_SHAPES:
            _log.info("more unknown paths are scheduled without a line here")


def shape_of(path: str) -> str:
    """Return the path with `*` for segments that aren't words, at most eight of them, without ids and secrets."""
    segments = path[:512].strip("/").split("/")
    words = [segment if _WORD.fullmatch(segment) else "*" for segment in segments[:_MOST_SEGMENTS]]
    return redact("/" + "/".join(words) + ("/*" if len(segments) > _MOST_SEGMENTS else ""))
