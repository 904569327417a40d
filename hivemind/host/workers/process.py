"""A worker's process: serves as the order on its standard input says."""

from __future__ import annotations

import functools
import pickle
import sys

from hivemind.console import guarded_output, print_note
from hivemind.errors import HiveMindError
from hivemind.host.workers.order import Order
from hivemind.host.workers.tied import tie_to


def main() -> int:
    """Serve until the end; returns the exit code."""
    order: Order = pickle.load(sys.stdin.buffer)  # of the process that started this one
    try:
        tie_to(order.worker.supervisor)
        with guarded_output():
            from hivemind.host import server
            from hivemind.host.loop import run_loop
            from hivemind.host.workers.beside import attended

            beside = functools.partial(attended, order.worker)
            return run_loop(server.run(order.settings, order.settings_file, order.worker, beside))
    except HiveMindError as error:
        print_note(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
