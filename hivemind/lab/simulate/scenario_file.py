"""A scenario file: what-if changes in TOML, in the form of `hivemind.toml`.

max_concurrency = 8
agents = "x2"

[provider]
limits = "x2"
outage = "5m@10m"

[agent.alice]
priority = "high"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hivemind.errors import UsageError


def scenario(path: Path) -> list[str]:
    """Return the changes of a file as `NAME=VALUE`. Raises: UsageError: it can't be read, or holds none.

    Whoever catches the error names the file.
    """
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(error.strerror or str(error)) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"can't be read as TOML: {error}") from None
    texts = list(_flat(found, ""))
    if not texts:
        raise UsageError("changes nothing; it holds settings, such as max_concurrency = 8")
    return texts


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            yield f"{prefix}{key}={'on' if value else 'off'}"
        elif isinstance(value, int | float | str):
            yield f"{prefix}{key}={value}"
        else:
            raise UsageError(f"{prefix}{key} must be a text, a number, true or false")
