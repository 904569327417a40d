"""The process of a detached proxy: serves as the order on its standard input says, until it is idle or told to end.

`python -m hivemind.host.detached.process PORT`, where the port is only for those who list processes.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hivemind.host.detached.order import DetachedOrder, StartReport
    from hivemind.store.token_file import ControlKey


def main() -> int:
    """Serve until the end; returns the exit code."""
    # The process that its starter knows ends at once, so nobody who ends that one and its children finds this one.
    if os.fork():
        os._exit(0)
    gc.disable()  # while it imports, because all of that stays
    import pickle
    from pathlib import Path

    from hivemind.console import guarded_output
    from hivemind.errors import BindError, HiveMindError
    from hivemind.host.detached.log import ProxyLog, log_path
    from hivemind.host.detached.order import Failed, StartReport

    order: DetachedOrder = pickle.load(sys.stdin.buffer)  # of the process that started this one
    report = StartReport(os.dup(1))
    _leave_terminal()
    settings = order.settings
    try:
        path = log_path(settings.state_dir, settings.port)
    except OSError:
        path = Path(os.devnull)
    log = ProxyLog(path)
    log.keep_trimmed()
    try:
        with guarded_output():
            return _serve(order, report, str(log.path))
    except HiveMindError as error:
        report.send(Failed(str(error), error.exit_code, isinstance(error, BindError) and error.in_use))
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _leave_terminal() -> None:
    """Keep nothing of the starter's: neither its input nor its folder."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.chdir("/")


def _serve(order: DetachedOrder, report: StartReport, log: str) -> int:
    from hivemind.host.detached.order import Started

    settings = order.settings

    def ready(url: str, key: ControlKey | None) -> None:
        report.send(Started(url, "" if key is None else key.token, log))

    from hivemind import logs
    from hivemind.host import server
    from hivemind.host.loop import run_loop

    gc.enable()
    logs.configure(settings.log_level)
    return run_loop(server.run(settings, order.settings_file, on_ready=ready))


if __name__ == "__main__":
    sys.exit(main())
