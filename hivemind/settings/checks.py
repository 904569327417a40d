"""Checking values against the settings' types, ranges and rules."""

from __future__ import annotations

import ipaddress
import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict

from hivemind.agent_names import BadName, normalised, spelled_in
from hivemind.settings.hosts import checked_host, checked_origin
from hivemind.settings.model import Settings
from hivemind.settings.origin import make_origins, split_upstream
from hivemind.settings.sections import (
    AgentSettings,
    AlertSettings,
    BadSetting,
    JournalSettings,
    RetrySettings,
    Secret,
    pace_of,
    settings_of,
)
from hivemind.settings.store_address import store_address

Record = TypeVar("Record", bound=Struct)
Rule = Callable[[Any, Any], Any]
"""Takes a record and the value of one of its settings. Returns the value to be used; None: as it is.

Raises: ValueError: what the value must be.
"""
_NOT_PLAIN = ValidationError, UnicodeEncodeError  # the latter for a text with bytes that aren't UTF-8
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
    values = _read(kind, values)
    try:
        record = convert(values, kind, dec_hook=_made)
    except _NOT_PLAIN:
        from hivemind.settings.coercion import coerced

        record = convert(coerced(kind, values), kind, dec_hook=_made)
    return _ruled(record)


def one_checked(path: tuple[str, ...], value: object) -> Any:
    """Return a value as the type and range of a setting take it, whatever others are set.

    Raises: BadSetting.
    """
    hint, default = Settings, None
    for part in path:
        hint, default = next((hint, default) for name, hint, default in settings_of(hint) if name == part)
    try:
        return convert(value, hint, dec_hook=_made)
    except _NOT_PLAIN:
        from hivemind.settings.coercion import one_coerced

        return one_coerced(path, hint, default, value)


def _made(kind: type, value: object) -> object:
    """Return a setting of a type of its own. What is no text is returned as it is, and refused if of another type."""
    return kind(value) if isinstance(value, str) else value


def _read(kind: type[Struct], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with those read that a flag or variable has as a text. Raises: BadSetting."""
    read = dict(values)
    for name, hint, default in settings_of(kind):
        if name not in values:
            continue
        value = values[name]
        with _at(name):
            if isinstance(default, Struct):
                value = asdict(value) if isinstance(value, Struct) else value
                read[name] = _read(hint, value) if isinstance(value, Mapping) else value
            elif (reader := _READERS.get(name)) is not None:
                read[name] = reader(value)
    return read


def _ruled(record: Record) -> Record:
    """Return the record as the rules have it. Raises: BadSetting."""
    rules, ruled = _RULES.get(type(record), {}), {}
    for name, _, default in settings_of(type(record)):
        value, rule = getattr(record, name), rules.get(name)
        with _at(name):
            value = _ruled(value) if isinstance(default, Struct) else value
            found = None if rule is None else rule(record, value)
        ruled[name] = value if found is None else found
    return type(record)(**ruled)


@contextmanager
def _at(name: str) -> Iterator[None]:
    """Have an error name the place. Raises: BadSetting."""
    try:
        yield
    except BadSetting as error:
        raise BadSetting((name, *error.path), error.why) from None
    except ValueError as error:
        raise BadSetting((name,), str(error)) from None


# --- Texts ------------------------------------------------------------------------------------------------------------


def _reads_list(kind: str, opening: str) -> Callable[[Any], Any]:
    """Return a reader of parts separated by commas or spaces, or, where it begins so, of a JSON list."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if not value.lstrip().startswith(opening):
            return [part for part in re.split(r"[,\s]+", value) if part]
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(f"must be {kind} separated by commas or spaces, or a JSON list of them") from None

    return read


def _read_credentials(value: Any) -> Any:
    """Return the token for each name. An error is one line, and repeats none."""
    try:
        tokens = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        tokens = None
    if not isinstance(tokens, Mapping) or not all(isinstance(token, str | Secret) for token in tokens.values()):
        raise ValueError('must be a token for each agent\'s name, as in {"alice": "TOKEN"}')
    return tokens


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "upstream": _reads_list("URLs", "["),
    "allowed_hosts": _reads_list("names", '["'),
    "allowed_origins": _reads_list("origins", '["'),
    "hold_answers": lambda value: value.split(",") if isinstance(value, str) else value,
    "credentials": _read_credentials,
}


# --- Rules ------------------------------------------------------------------------------------------------------------


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_strong(token: str) -> bool:
    """Return whether a token is too long to guess by trying; a weak password of that length isn't recognised."""
    return len(token) >= _TOKEN_LENGTH and len(set(token)) >= _TOKEN_LETTERS


def _is_url(text: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _if_given(holds: Callable[[str], object], what: str = "") -> Rule:
    """Return the rule of a secret that need not be set; `what` says what it must be for `holds` to be true of it."""

    def check(record: object, value: Secret | None) -> None:
        if value is not None:
            text = value.reveal()
            if text.encode(errors="ignore").decode() != text:
                raise ValueError("must be text in UTF-8")
            if not holds(text):
                raise ValueError(f"must be {what}")

    return check


def _not_below(section: str, other: str) -> Rule:
    """Return the rule that a value is at least that of another setting of its section."""

    def check(record: object, value: float) -> None:
        least = getattr(record, other)
        if value < least:
            raise ValueError(f"must be at least {section}.{other}, which is {least:.10g}")

    return check


_PLAIN = "printable ASCII without spaces"
_HTTP_URL = _if_given(
    lambda text: _is_url(text, "http", "https") and _is_plain(text),
    f"a URL with a host: http:// or https://, in {_PLAIN}",
)
_SIGNING = _if_given(
    lambda text: len(text) >= _SHORTEST_SECRET,
    f"at least {_SHORTEST_SECRET} characters; make one with openssl rand -hex 16",
)
_VIA = _if_given(
    lambda text: _is_url(text, "http", "https", "socks5", "socks5h"),
    f"a proxy's URL with a host: http://, https://, socks5:// or socks5h://, as in {_MASKED_URL}",
)
_TOKEN = _if_given(lambda text: text and _is_plain(text), f"{_PLAIN}, at least one character")


def _control_token(settings: Settings, value: Secret | None) -> None:
    _TOKEN(settings, value)
    if value is not None and value == settings.token:
        raise ValueError("must differ from token, which every agent knows")


def _held(agents: AgentSettings, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(normalised(name) for name in names if name.strip())


def _credentials(agents: AgentSettings, credentials: Mapping[str, Secret]) -> Mapping[str, Secret]:
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


def _upstreams(settings: Settings, value: tuple[str, ...]) -> tuple[str, ...]:
    for number, text in enumerate(value, 1):
        try:
            split_upstream(text)
        except ValueError as error:
            raise ValueError(f"number {number} of {len(value)} {error}" if len(value) > 1 else str(error)) from None
    make_origins(value, None)
    return tuple(text.strip() for text in value)


def _host(settings: Settings, value: str) -> str:
    host = value.removeprefix("[").removesuffix("]")
    if not host or not host.isascii() or not host.isprintable() or re.search(r"[\s/@?#]", host):
        raise ValueError("must be an IP address or a host name")
    if _is_loopback(host):
        return host
    if settings.token is None:
        raise ValueError(
            f"{host} isn't a loopback address, so agents need a token: set HIVEMIND_TOKEN (or --token),"
            " or use 127.0.0.1"
        )
    for name, token in (("token", settings.token), ("control_token", settings.control_token)):
        if token is not None and not _is_strong(token.reveal()):
            raise ValueError(
                f"{host} isn't a loopback address, and {name} can be guessed: it must be at least {_TOKEN_LENGTH}"
                f" characters, {_TOKEN_LETTERS} of them different; make one with openssl rand -hex 16"
            )
    return host


def _pace(settings: Settings, value: str) -> None:
    pace_of(value)


def _ca_file(settings: Settings, value: Path | None) -> None:
    if value is None:
        return
    try:
        ssl.create_default_context(cafile=value)
    except OSError as error:
        reason = "no certificate in PEM form is in it" if isinstance(error, ssl.SSLError) else error.strerror
        raise ValueError(f"must be a file of certificates in PEM form ({reason})") from None


def _agents(settings: Settings, value: AgentSettings) -> None:
    for name, token in value.credentials.items():
        for other in ("token", "control_token"):
            if token == getattr(settings, other):
                raise ValueError(f"the token of {name} must differ from {other}")


_RULES: Mapping[type[Struct], Mapping[str, Rule]] = {
    AgentSettings: {"credentials": _credentials, "hold_answers": _held},
    AlertSettings: {"webhook": _HTTP_URL, "webhook_secret": _SIGNING},
    JournalSettings: {"keep_mb": _not_below("journal", "max_mb")},
    RetrySettings: {"max_s": _not_below("retry", "base_s")},
    Settings: {
        "upstream": _upstreams,
        "token": _TOKEN,
        "control_token": _control_token,
        "host": _host,
        "allowed_hosts": lambda _, names: tuple(map(checked_host, names)),
        "allowed_origins": lambda _, origins: tuple(map(checked_origin, origins)),
        "pace": _pace,
        "via": _VIA,
        "ca_file": _ca_file,
        "fleet": _if_given(store_address),
        "otlp": _HTTP_URL,
        "agents": _agents,
    },
}
"""What a setting must be besides its type and range."""
