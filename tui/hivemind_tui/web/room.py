"""An attached control room for one tab of a browser: a process that textual-serve starts and talks to by pipes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hivemind.console import Console
from hivemind.host.loop import run_loop
from hivemind_tui.loop.gc_pacing import quiet
from hivemind_tui.program.main import parse, with_preferences
from hivemind_tui.program.sessions import run_session


def main() -> int:
    """Run the room that the arguments describe, as those of `hivemind-tui`."""
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")  # what a browser's terminal is
    console = Console(sys.stderr)
    with quiet() as collector, open(os.devnull, "w", encoding="utf-8") as sys.stdout:  # the pipe is the screen's
        options = with_preferences(parse(sys.argv[1:], os.environ, Path.cwd()))._replace(in_browser=True)
        run_loop(run_session(options, console, collector, with_screen=True))
    console.close()
    return 0


if __name__ == "__main__":
    os._exit(main())  # what reads the pipe may be blocked in it
