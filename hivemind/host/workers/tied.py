"""Child processes that end with their parent, however that ends. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

from hivemind.errors import HiveMindError

_PR_SET_PDEATHSIG = 1
_TIED = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def tie_to(parent: int) -> None:
    """Have this process killed when its parent ends. Raises: HiveMindError: it has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        raise HiveMindError("the process that started this worker is gone")


def tied_command(program: str, arguments: Sequence[str]) -> list[str]:
    """Return a command that runs another program so; to be started by the process that it is to end with."""
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), program, *arguments]
