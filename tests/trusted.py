"""Settings files that are found, and that the user trusts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from hivemind.settings_file import NAME
from hivemind.store import trust


def trusted_settings(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Path:
    """Write a folder's `hivemind.toml`, and trust it: in this process's environment, or in that one alone."""
    path = folder / NAME
    path.write_text(text)
    with mock.patch.dict(os.environ, environ or {}, clear=environ is not None):
        trust.record(path, text)
    return path
