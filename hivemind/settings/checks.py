"""Checking values against the settings' types, ranges and rules, with pydantic.

Pydantic would take a fifth of the memory of a proxy at rest, which needs it no more once its settings are read. So the
records of :mod:`.sections` and :mod:`.model` are made without it, and :mod:`.apart` imports this in another process.
"""

from __future__ import annotations

import ipaddress
import json
import re
import ssl
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct
from pydantic import (
    BaseModel,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    create_model,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hivemind.agent_names import BadName, normalised, spelled_in
from hivemind.settings import sections
from hivemind.settings.hosts import checked_host, checked_origin
from hivemind.settings.model import Settings
from hivemind.settings.origin import make_origins, split_upstream
from hivemind.settings.sections import BadSetting, Secret, settings_of
from hivemind.settings.store_address import store_address

Record = TypeVar("Record", bound=Struct)
_LISTED = {"allowed_hosts": "names", "allowed_origins": "origins"}
_TOKEN_LENGTH, _TOKEN_LETTERS = 16, 6
"""What a token on an address that others reach must have at least; 16 random hexadecimal digits have 64 bits."""
_SHORTEST_SECRET = 16
_MASKED_URL = "http://127.0.0.1:8080"


def checked(values: Mapping[str, Any]) -> Settings:
    """Return a record of all settings with these values; those of a section are a mapping or a record.

    Raises: BadSetting: the first one that can't be.
    """
    return checked_as(Settings, values)


def checked_as(kind: type[Record], values: Mapping[str, Any]) -> Record:
    """Return a record of this kind, as of a section, with these values. Raises: BadSetting, as :func:`checked`."""
    left = (name for name, _, default in settings_of(kind) if isinstance(default, Struct) and name not in values)
    try:
        made = _model_of(kind, frozenset(left)).model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = tuple(part for part in first["loc"] if isinstance(part, str))
        raise BadSetting(path, str(first["ctx"]["error"]) if first["type"] == "value_error" else None) from None
    return _recorded(made, kind)


def _recorded(made: BaseModel, kind: type[Record]) -> Record:
    values = {name: getattr(made, name) for name in type(made).model_fields}
    kinds = {name: each for name, each, _ in settings_of(kind) if isinstance(values.get(name), BaseModel)}
    return kind(**values | {name: _recorded(values[name], each) for name, each in kinds.items()})


def one_checked(path: tuple[str, ...], value: object) -> Any:
    """Return a value as the type and range of a setting take it, whatever others are set.

    Raises: BadSetting.
    """
    try:
        return _adapter(path).validate_python(value)
    except ValidationError:
        raise BadSetting(path, None) from None


@cache
def _adapter(path: tuple[str, ...]) -> TypeAdapter[Any]:
    hint: Any = Settings
    for part in path:
        hint = next(each for name, each, _ in settings_of(hint) if name == part)
    return TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False))


@cache
def _model_of(kind: type[Struct], left: frozenset[str] = frozenset()) -> type[BaseModel]:
    """Return the model of a record of settings, but for the sections that are `left` as they are by default."""
    fields: dict[str, Any] = {
        name: (_model_of(hint) if isinstance(default, Struct) else hint, default)
        for name, hint, default in settings_of(kind)
        if name not in left
    }
    return create_model(kind.__name__, __base__=_RULES.get(kind, _Section), **fields)


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,
        validate_default=True,
        from_attributes=True,
    )


def _not_below(section: str, name: str) -> Callable[[type[_Section], float, ValidationInfo], float]:
    """Return a check that a value is at least that of another setting of its section."""

    def check(cls: type[_Section], value: float, info: ValidationInfo) -> float:
        least = info.data.get(name)
        if least is not None and value < least:
            raise ValueError(f"must be at least {section}.{name}, which is {least:.10g}")
        return value

    return check


class _Retry(_Section):
    _not_below_base = field_validator("max_s", check_fields=False)(_not_below("retry", "base_s"))


class _Journal(_Section):
    _not_below_a_part = field_validator("keep_mb", check_fields=False)(_not_below("journal", "max_mb"))


def _http_url(value: Secret | None) -> Secret | None:
    """Return the same URL. Raises: ValueError: it isn't one of HTTP."""
    if value is not None and not (_is_url(value.reveal(), "http", "https") and _is_plain(value.reveal())):
        raise ValueError("must be a URL with a host: http:// or https://, in printable ASCII without spaces")
    return value


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


class _Agents(_Section):
    @field_validator("hold_answers", mode="before", check_fields=False)
    @classmethod
    def _check_held(cls, value: Any) -> Any:
        """Split a variable's string at commas, and normalise the names."""
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            return value
        try:
            return tuple(normalised(name) for name in names if name.strip())
        except BadName as error:
            raise ValueError(str(error)) from None

    @field_validator("credentials", mode="wrap", check_fields=False)
    @classmethod
    def _check_credentials(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Mapping[str, Secret]:
        """Read JSON from a flag or variable, and normalise the names. An error is one line, and repeats no token."""
        try:
            credentials = handler(json.loads(value) if isinstance(value, str) else value)
        except (ValidationError, json.JSONDecodeError, RecursionError):
            raise ValueError('must be a token for each agent\'s name, as in {"alice": "TOKEN"}') from None
        found: dict[str, Secret] = {}
        for text, token in credentials.items():
            try:
                name = normalised(text)
            except BadName as error:
                raise ValueError(f"number {len(found) + 1}: {error}") from None
            twin = spelled_in(found, name)
            if twin in found:
                raise ValueError(f"{twin} and {name} are one agent's name, so it can have one token only")
            if token in found.values():
                raise ValueError(f"{name} must have a token of its own")
            secret = token.reveal()
            if not (secret and _is_plain(secret)):
                raise ValueError(f"the token of {name} must be printable ASCII without spaces, at least one character")
            found[name] = token
        return found


class _Alerts(_Section):
    _check_webhook = field_validator("webhook", check_fields=False)(_http_url)

    @field_validator("webhook_secret", check_fields=False)
    @classmethod
    def _check_secret(cls, value: Secret | None) -> Secret | None:
        if value is not None and len(value.reveal()) < _SHORTEST_SECRET:
            raise ValueError(f"must be at least {_SHORTEST_SECRET} characters; make one with openssl rand -hex 16")
        return value


class _All(BaseSettings):
    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True, validate_default=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take arguments only, so that settings made in code don't depend on the environment of the process."""
        return (init_settings,)

    @field_validator("upstream", "allowed_hosts", "allowed_origins", mode="before", check_fields=False)
    @classmethod
    def _split_list(cls, value: Any, info: ValidationInfo) -> Any:
        """Split a variable's string: a JSON list, or parts separated by commas or spaces."""
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith('["') or (value.lstrip().startswith("[") and info.field_name == "upstream"):
            try:
                return json.loads(value)
            except json.JSONDecodeError:
                kind = _LISTED.get(info.field_name or "", "URLs")
                raise ValueError(f"must be {kind} separated by commas or spaces, or a JSON list of them") from None
        return [part for part in re.split(r"[,\s]+", value) if part]

    @field_validator("upstream", check_fields=False)
    @classmethod
    def _check_upstreams(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for number, text in enumerate(value, 1):
            try:
                split_upstream(text)
            except ValueError as error:
                raise ValueError(f"number {number} of {len(value)} {error}" if len(value) > 1 else str(error)) from None
        make_origins(value, None)
        return tuple(text.strip() for text in value)

    @field_validator("allowed_hosts", check_fields=False)
    @classmethod
    def _check_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(checked_host, value))

    @field_validator("allowed_origins", check_fields=False)
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(checked_origin, value))

    @field_validator("token", "control_token", check_fields=False)
    @classmethod
    def _check_token(cls, value: Secret | None, info: ValidationInfo) -> Secret | None:
        text = "x" if value is None else value.reveal()
        if not (text and _is_plain(text)):
            raise ValueError("must be printable ASCII without spaces, at least one character")
        if value is not None and value == info.data.get("token"):
            raise ValueError("must differ from token, which every agent knows")
        return value

    @field_validator("host", check_fields=False)
    @classmethod
    def _check_host(cls, value: str, info: ValidationInfo) -> str:
        host = value.removeprefix("[").removesuffix("]")
        if not host or not host.isascii() or not host.isprintable() or re.search(r"[\s/@?#]", host):
            raise ValueError("must be an IP address or a host name")
        if not _is_loopback(host) and info.data.get("token") is None and "token" in info.data:
            raise ValueError(
                f"{host} isn't a loopback address, so agents need a token: set HIVEMIND_TOKEN (or --token),"
                " or use 127.0.0.1"
            )
        for name in () if _is_loopback(host) else ("token", "control_token"):
            given = info.data.get(name)
            if given is not None and not _is_strong(given.reveal()):
                raise ValueError(
                    f"{host} isn't a loopback address, and {name} can be guessed: it must be at least {_TOKEN_LENGTH}"
                    f" characters, {_TOKEN_LETTERS} of them different; make one with openssl rand -hex 16"
                )
        return host

    @field_validator("pace", check_fields=False)
    @classmethod
    def _check_pace(cls, value: str) -> str:
        sections.pace_of(value)
        return value

    @field_validator("via", check_fields=False)
    @classmethod
    def _check_via(cls, value: Secret | None) -> Secret | None:
        if value is not None and not _is_url(value.reveal(), "http", "https", "socks5", "socks5h"):
            raise ValueError(
                "must be a proxy's URL with a host: http://, https://, socks5:// or socks5h://, as in " + _MASKED_URL
            )
        return value

    @field_validator("fleet", check_fields=False)
    @classmethod
    def _check_fleet(cls, value: Secret | None) -> Secret | None:
        if value is not None:
            store_address(value.reveal())
        return value

    _check_otlp = field_validator("otlp", check_fields=False)(_http_url)

    @field_validator("ca_file", check_fields=False)
    @classmethod
    def _check_ca_file(cls, value: Path | None) -> Path | None:
        if value is not None:
            try:
                ssl.create_default_context(cafile=value)
            except OSError as error:
                reason = "no certificate in PEM form is in it" if isinstance(error, ssl.SSLError) else error.strerror
                raise ValueError(f"must be a file of certificates in PEM form ({reason})") from None
        return value

    @field_validator("agents", check_fields=False)
    @classmethod
    def _check_credentials(cls, value: Any, info: ValidationInfo) -> Any:
        for name, token in value.credentials.items():
            for other in ("token", "control_token"):
                if token == info.data.get(other):
                    raise ValueError(f"the token of {name} must differ from {other}")
        return value


_RULES: Mapping[type[Struct], type[BaseModel]] = {
    sections.AgentSettings: _Agents,
    sections.AlertSettings: _Alerts,
    sections.JournalSettings: _Journal,
    sections.RetrySettings: _Retry,
    Settings: _All,
}
"""Where a record has more rules than its types."""


def _is_strong(token: str) -> bool:
    """Return whether a token is too long to guess by trying; a weak password of that length isn't recognised."""
    return len(token) >= _TOKEN_LENGTH and len(set(token)) >= _TOKEN_LETTERS


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_url(text: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
