"""Which variables hold secrets, by the settings' types, and how an environment loses them.

Programs read their settings first; what they start later (agents, git and its hooks, helpers) needs none of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Mapping

from hivemind.settings.options import PREFIX, options


def is_secret(variable: str) -> bool:
    """Return whether a variable, in any case, is that of a setting that holds a secret, of its section or of a part."""
    name = variable.upper()
    secrets = (option.variable for option in options() if name.startswith(PREFIX) and option.secret)
    return any(name == each or each.startswith(f"{name}__") or name.startswith(f"{each}__") for each in secrets)


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without them."""
    return {name: value for name, value in environ.items() if not is_secret(name)}


def forget_secrets() -> None:
    """Remove them from the environment of this process, also from what the system shows of it (`/proc/PID/environ`)."""
    for name in [name for name in os.environ if is_secret(name)]:
        with contextlib.suppress(OSError, AttributeError):  # a system where the C library isn't reached so
            find = ctypes.CDLL(None).getenv
            find.restype = ctypes.c_void_p
            if place := find(os.fsencode(name)):
                ctypes.memset(place, 0, len(os.fsencode(os.environ[name])))
        del os.environ[name]
