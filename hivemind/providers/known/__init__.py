"""What is known of each provider: a file each, found by its being here. How to add one: CONTRIBUTING."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache, lru_cache
from urllib.parse import unquote

from hivemind.providers.base import Headers
from hivemind.providers.table import Load, Meaning, Path, Provider, compiled


@cache
def providers() -> tuple[Provider, ...]:
    """Return the providers of all files, by the files' names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}").PROVIDER for name in names)


@lru_cache(maxsize=256)
def at_host(host: str) -> Provider | None:
    """Return the provider that an upstream's host name, in lower case, belongs to; None: unknown."""
    return next((each for each in providers() if each.serves(host)), None)


def provider_of(host: str, headers: Headers = (), body: bytes = b"") -> Provider | None:
    """Return the provider that answered: by the host, else by the form of its error, else by a header that only it
    has. None: unknown, or a gateway whose upstream can't be told."""
    if host and (found := at_host(host)) is not None:
        return found
    text = body.decode("utf-8", "replace")
    for each in providers():
        if each.errors and compiled(each.errors).search(text):
            return each
    names = [name.decode("latin-1") for name, _ in headers]
    return next((p for p in providers() if p.headers and any(n.startswith(p.headers) for n in names)), None)


def paths_asked() -> frozenset[str]:
    """Return what a server at home is asked for, to see which it is."""
    return frozenset(sign.path for each in providers() for sign in each.signs if sign.path)


def loads_of(name: str) -> tuple[Load | None, tuple[Load, ...]]:
    """Return where the model server of this name tells how many slots it has, and how much it has to do."""
    return next(((each.slots, each.loads) for each in providers() if each.name == name), (None, ()))


def server_of(headers: Headers, path: str = "", body: bytes = b"") -> str | None:
    """Return the name of the model server, and so of its profile, that gave this reply; None: it doesn't tell."""
    server = next((value.decode("latin-1") for name, value in headers if name == b"server"), "")
    text = body.decode("utf-8", "replace")
    named = (each.name for each in providers() if any(sign.matches(server, path, text) for sign in each.signs))
    return next(named, None)


def refusal_of(provider: Provider | None, codes: frozenset[str], text: str) -> Meaning | None:
    """Return what the rows say of an error with these codes, in lower case, and this text: those of its provider first,
    then those of all others, because gateways pass errors on, if they agree. None: no row matches.

    A number alone means something else to each provider.
    """
    if provider is not None:
        for row in provider.refusals:
            if row.matches(codes, text):
                return row.meaning
    named = ([row for row in each.refusals if row.text or not row.code.isdigit()] for each in providers())
    found = {next((row.meaning for row in rows if row.matches(codes, text)), None) for rows in named} - {None}
    return found.pop() if len(found) == 1 else None


@cache
def _paths() -> list[tuple[re.Pattern[str], Path]]:
    return [(re.compile(f"(?:{row.path})$", re.I), row) for each in providers() for row in each.paths if row.dialect]


def free_posts() -> tuple[bytes, ...]:
    """Return the patterns of paths of which a POST is free."""
    return tuple(row.path.encode() for each in providers() for row in each.paths if not row.dialect)


@lru_cache(maxsize=512)
def dialect_named_by(path: str) -> str | None:
    """Return the name of the dialect that is spoken under a path of some provider's own; None: the path is none."""
    return next((row.dialect for pattern, row in _paths() if pattern.search(path)), None)


@lru_cache(maxsize=512)
def named_by(path: str) -> tuple[str, bool | None]:
    """Return the model that such a path names, decoded, or nothing; and whether it is answered by a stream, where the
    path says so."""
    for pattern, row in _paths():
        if found := pattern.search(path.rstrip("/")):
            return unquote(found.groupdict().get("model") or ""), row.stream
    return "", None
