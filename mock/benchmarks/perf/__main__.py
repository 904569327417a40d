"""Run the measurements: see :mod:`benchmarks.perf.command`."""

from __future__ import annotations

import sys

from benchmarks.perf.command import main

if __name__ == "__main__":
    sys.exit(main())
