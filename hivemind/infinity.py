"""Infinity in JSON, which has none: a number without a limit is written as null, and found again by its type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from hivemind.records import names_of


class Infinities:
    """Where in a record's JSON a null stands for a number without a limit."""

    def __init__(self, whole: type[Any]) -> None:
        hints = get_type_hints(whole)
        self._numbers = [name for name, hint in hints.items() if hint is float]
        self._mappings = [name for name, hint in hints.items() if hint == Mapping[str, float]]
        inner = {name: (get_args(hint) or (hint,))[0] for name, hint in hints.items()}
        made = [(name, hint) for name, hint in inner.items() if isinstance(hint, type)]
        parts = [(name, Infinities(hint)) for name, hint in made if names_of(hint) is not None]
        self._parts = [(name, part) for name, part in parts if part.any]

    @property
    def any(self) -> bool:
        """There is a number anywhere in it."""
        return bool(self._numbers or self._mappings or self._parts)

    def fill(self, values: Any) -> None:
        """Put infinity there. What isn't of the type's form is left for the conversion to complain of."""
        if not isinstance(values, dict):
            return
        for name in self._numbers:
            if values.get(name, 0.0) is None:
                values[name] = math.inf
        for name in self._mappings:
            found = values.get(name)
            if isinstance(found, dict):
                found.update({key: math.inf for key, value in found.items() if value is None})
        for name, part in self._parts:
            found = values.get(name)
            for each in found if isinstance(found, list) else (found,):
                part.fill(each)
