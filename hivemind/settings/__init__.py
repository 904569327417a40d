"""Every setting: one frozen record, filled from flags, `HIVEMIND_*` variables, `hivemind.toml` and defaults.

:func:`load` is the whole of it for a command with no flags but these; a command that has more of its own calls
:func:`add_flags` on its parser and :func:`from_flags` on the result. :mod:`.write` changes the file.
"""

from __future__ import annotations

from hivemind.parser import Parser
from hivemind.settings.load import from_flags, is_given, load, settings_file
from hivemind.settings.model import Settings
from hivemind.settings.options import add_flags
from hivemind.settings.origin import FIRST_UPSTREAMS, Origin
from hivemind.settings.secret_variables import forget_secrets, without_secrets

__all__ = [
    "FIRST_UPSTREAMS",
    "Origin",
    "Parser",
    "Settings",
    "add_flags",
    "forget_secrets",
    "from_flags",
    "is_given",
    "load",
    "settings_file",
    "without_secrets",
]
