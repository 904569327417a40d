"""Records: what is made of values and is mostly passed on.

They are structs of msgspec. A struct's class takes a twentieth of a dataclass's time to make, which a start pays some
hundred times, and an instance a third. Dataclasses are left where a struct can't say it (a field that `repr` must not
show, or that isn't an argument), and where fields change with each request, which takes twice as long in a struct.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec

__all__ = ["names_of", "replace", "required_of"]


def names_of(kind: type[Any]) -> tuple[str, ...] | None:
    """Return the names of a record's fields, in order; none if it is no record."""
    names: tuple[str, ...] | None = getattr(kind, "__struct_fields__", None)
    if names is None and dataclasses.is_dataclass(kind):
        names = tuple(field.name for field in dataclasses.fields(kind))
    return names


def required_of(kind: type[Any]) -> set[str]:
    """Return the names of a record's fields that have no default."""
    if issubclass(kind, msgspec.Struct):
        return {field.name for field in msgspec.structs.fields(kind) if field.required}
    missing = dataclasses.MISSING
    return {field.name for field in dataclasses.fields(kind) if field.default is field.default_factory is missing}


if TYPE_CHECKING:
    from dataclasses import replace  # which type checkers hold the changes to
else:

    def replace(record: Any, /, **changes: Any) -> Any:
        """Return a copy with these changes."""
        of_its_kind = msgspec.structs.replace if isinstance(record, msgspec.Struct) else dataclasses.replace
        return of_its_kind(record, **changes)
