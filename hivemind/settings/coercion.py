"""Settings whose values are of another type, and what they mean, with pydantic-settings.

What a file, flag or variable says is nearly always of its setting's type already, which :mod:`.checks` sees without
pydantic. That takes a tenth of a second to import, and a fifth of the memory of a proxy at rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hivemind.settings.model import Settings
from hivemind.settings.options import unwrapped
from hivemind.settings.sections import BadSetting, settings_of


def coerced(kind: type[Struct], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return all values of a record of this kind, with what these mean as its types. Raises: BadSetting: the first one
    that means nothing as its type, or is out of its range."""
    try:
        return _model_of(kind).model_validate(values).model_dump(warnings=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadSetting(tuple(part for part in first["loc"] if isinstance(part, str)), None) from None


def one_coerced(path: tuple[str, ...], hint: Any, default: object, value: object) -> Any:
    """Return what a value means as the type of the setting at `path`. Raises: BadSetting."""
    try:
        return TypeAdapter(_with_range(hint, default), config=ConfigDict(allow_inf_nan=False)).validate_python(value)
    except ValidationError:
        raise BadSetting(path, None) from None


@cache
def _model_of(kind: type[Struct]) -> type[BaseModel]:
    fields: dict[str, Any] = {
        name: (_model_of(hint) if isinstance(default, Struct) else _with_range(hint, default), default)
        for name, hint, default in settings_of(kind)
    }
    return create_model(kind.__name__, __base__=_All if kind is Settings else _Section, **fields)


def _with_range(hint: Any, default: object) -> Any:
    """Return the type of a setting with its range as pydantic spells it."""
    kind, bounds, _ = unwrapped(hint)
    ranged: Any = Annotated[kind, Field(ge=bounds.ge, gt=bounds.gt, le=bounds.le, lt=bounds.lt)] if bounds else kind
    return ranged | None if default is None else ranged


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, from_attributes=True)


class _All(BaseSettings):
    model_config = SettingsConfigDict(extra="forbid", allow_inf_nan=False)

    @classmethod
    def settings_customise_sources(cls, *args: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take arguments only: :mod:`.load` has read the sources."""
        return (sources["init_settings"],)
