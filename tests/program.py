"""The command line in the test's own process, because starting Python and importing it all takes a second."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from hivemind.cli.main import main


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def both(self) -> tuple[int, str]:
        """The exit code and its one line, of what is wrong or else of what was done."""
        return self.code, (self.err or self.out).removesuffix("\n")


def called(folder: Path, args: Sequence[str], environ: Mapping[str, str]) -> Ended:
    """Run `hivemind` with these arguments and nothing to read, in that folder, with this environment and no other.

    One at a time: folder, environment and standard streams are the process's.
    """
    encoding = environ.get("PYTHONIOENCODING", "utf-8")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2))
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, environ, clear=True),
        mock.patch.multiple(sys, stdin=io.StringIO(), stdout=out, stderr=err),
    ):
        time.tzset()
        code = _exit_code(args)
    time.tzset()
    said, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
    return Ended(code, said, complained)


def _exit_code(args: Sequence[str]) -> int:
    try:
        return main(args)
    except SystemExit as ended:  # by argparse
        return ended.code if isinstance(ended.code, int) else 1
