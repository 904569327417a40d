"""Credentials of a load test. The journal has none, so they come from the environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hivemind.errors import UsageError
from hivemind.lab.loadtest.target import Target

TOKEN_VARIABLE = "HIVEMIND_TOKEN"
_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "ollama": ("OLLAMA_API_KEY",),
}
_DIALECTS = {"openai_chat": "openai", "openai_responses": "openai"}
_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,60}")
"""What error messages may repeat; anything else may be a key given in place of a variable's name."""
_BEARER = "authorization"
_HEADERS = {"anthropic": "x-api-key", "azure": "api-key", "google": "x-goog-api-key"}


class ApiKeys:
    """Chooses the credential of each request.

    `named` is the variable that the user named; without one, the usual variable of the API is used, unless the target
    is an unknown public server. Raises: UsageError: the variable isn't set, or its value is no key.
    """

    def __init__(self, environ: Mapping[str, str], named: str | None, target: Target) -> None:
        self._environ = environ
        self._target = target
        self._named = None if named is None else _from(environ, named, "--api-key-env")

    def header(self, dialect: str, path: str) -> tuple[bytes, bytes] | None:
        """Return the header with the credential, if there is one."""
        kind = "azure" if "/openai/deployments/" in path else _DIALECTS.get(dialect, dialect)
        key = self._named or self._usual(kind)
        if key is None:
            return None
        name = _HEADERS.get(kind, _BEARER)
        return name.encode(), (f"Bearer {key}" if name == _BEARER else key).encode()

    def check(self, asked: Iterable[tuple[str, str]]) -> None:
        """Check that a public target gets a credential for each of these dialects and paths. Raises: UsageError."""
        if self._target.private:
            return
        for dialect, path in asked:
            if self.header(dialect, path) is not None:
                if self._target.origin.scheme == "http":
                    raise UsageError(
                        f"{self._target.url}: a key isn't sent unencrypted over the internet; use https://"
                    )
                continue
            kind = _DIALECTS.get(dialect, dialect)
            names = " or ".join(_VARIABLES.get(kind, ()))
            if names and self._is_theirs(kind):
                raise UsageError(f"no key for {self._target.url}: set {names}, or name a variable with --api-key-env")
            raise UsageError(
                f"{self._target.url} isn't a provider's own address, so no key goes there unasked; name the variable"
                " that holds one with --api-key-env"
            )

    def _usual(self, kind: str) -> str | None:
        if not (self._target.private or self._is_theirs(kind)):
            return None
        name = next((each for each in _VARIABLES.get(kind, ()) if self._environ.get(each)), None)
        return None if name is None else _from(self._environ, name, "the environment")

    def _is_theirs(self, kind: str) -> bool:
        """Return whether the target is the provider that issues this kind of key."""
        return self._target.provider == kind or (kind == "openai" and self._target.provider == "azure")


def token_of(environ: Mapping[str, str], named: str | None, target: Target) -> str | None:
    """Return the token that a HiveMind requires of its agents, if there is one. Raises: UsageError."""
    if named is not None:
        return _from(environ, named, "--token-env")
    if target.private and environ.get(TOKEN_VARIABLE):
        return _from(environ, TOKEN_VARIABLE, "the environment")
    return None


def _from(environ: Mapping[str, str], name: str, where: str) -> str:
    """Return a variable's value. Raises: UsageError, which names the variable and never its value."""
    value = environ.get(name, "")
    if not value and not _NAME.fullmatch(name):
        raise UsageError(f"{where}: must be the name of a variable, such as ANTHROPIC_API_KEY, and not a key itself")
    if not value:
        raise UsageError(f"{where}: {name} isn't set")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise UsageError(f"{name}: a key is printable ASCII without spaces")
    return value
