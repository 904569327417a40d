"""The entry point of `hivemind-tui`. It imports the program where no garbage is collected, since all of that stays."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hivemind.console import open_streams, printable
from hivemind.errors import HiveMindError
from hivemind.lean import leave_out
from hivemind_tui.loop.gc_pacing import quiet


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns the exit code."""
    args = sys.argv[1:] if argv is None else argv
    open_streams()
    leave_out()
    try:
        with quiet() as collector:
            from hivemind_tui.program.main import parse, run

            options = parse(args, os.environ, Path.cwd())
            from hivemind.settings import forget_secrets

            forget_secrets()
            try:
                return run(options, collector)
            finally:
                _flush()
    except HiveMindError as error:
        from hivemind.redaction.text import mask_arguments  # needed only here: what was wrong may be a key

        print(f"hivemind-tui: {printable(mask_arguments(str(error), args))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not os.stat(os.curdir).st_nlink:
            print("hivemind-tui: the working directory is gone: change to one that is there", file=sys.stderr)
            return 2
        broken = isinstance(error, BrokenPipeError)  # nobody reads the lines any more, or the terminal is gone
        if not broken and error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if broken:
            return 0
        print("hivemind-tui: not all could be written: no space is left", file=sys.stderr)
        return 1


def _flush() -> None:
    """Write what is left, or drop it where the terminal is gone: at exit that would be a failure (120)."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EPIPE):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
