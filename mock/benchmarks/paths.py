"""Where a subprocess finds this package, which no wheel contains."""

from __future__ import annotations

import os
from pathlib import Path


def environment() -> dict[str, str]:
    """Return this process's environment with the folder of `benchmarks` on `PYTHONPATH`."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
