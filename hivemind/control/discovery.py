"""Discovery of a running proxy: its URL and where that can be reached from, and the token of its control API."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from hivemind.errors import UsageError
from hivemind.records import replace
from hivemind.store.token_file import note_in, note_path, read_note, state_dir
from hivemind.upstream.origin import is_loopback

TOKEN_VARIABLE = "HIVEMIND_CONTROL_TOKEN"
RUN_TOKEN_VARIABLE = "HIVEMIND_RUN_TOKEN"
"""A run's token for the control API, which a command uses in the run's processes."""
STATE_VARIABLE = "HIVEMIND_STATE_DIR"
URL_VARIABLE = "HIVEMIND_URL"
AGENT_VARIABLE = "HIVEMIND_AGENT"
"""The agent in whose process a command runs."""
_PORTS = {"http": 80, "https": 443}
_LONGEST = 64 << 10
"""Bytes of a token file, of which a proxy's note has a few hundred."""
_PEM = re.compile("-----BEGIN ([A-Z0-9 ]{1,40})-----")


class NoRunningProxy(UsageError):
    """No proxy of this user runs there, by its note in the state directory."""

    exit_code = 1


class ProxyAddress(Struct, frozen=True):
    """Address of a proxy."""

    url: str
    """Scheme, authority and base path, without a slash at the end."""
    port: int
    local: bool
    """The address is one of this machine."""


@dataclass(frozen=True, slots=True)
class Token:
    """A control token and where it was found."""

    text: str = field(repr=False)
    origin: str
    """The variable or the file, for messages."""
    file: Path | None = None
    """File to read a newer one from."""
    note: Path | None = None
    """Where a local proxy's note is, if it left one."""

    def noted_run(self) -> str:
        """Return the run of the proxy that noted this token; empty: no note has it."""
        if self.note is not None:
            with contextlib.suppress(OSError, ValueError):
                found = read_note(self.note)
                return found.run if found.token == self.text else ""
        return ""

    def again(self) -> Token:
        """Read the token again, because a restarted proxy has a new one; the same if it can't be read."""
        if self.file is None:
            return self
        try:
            return replace(self, text=_token_in(self.file))
        except (OSError, UsageError):
            return self


def parse_address(url: str) -> ProxyAddress:
    """Parse a proxy's URL. Raises: UsageError, whose text never repeats credentials."""
    text = url.strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError("the URL of a proxy must be plain ASCII without spaces, as in http://127.0.0.1:8765")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise UsageError("the URL of a proxy must have a host and a port from 1 to 65535") from None
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise UsageError("the URL of a proxy must begin with http:// or https:// and name a host and, if any, a port")
    if "@" in parts.netloc:
        raise UsageError(f"the URL of a proxy must hold no user name or password; the token goes in {TOKEN_VARIABLE}")
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        raise UsageError("the URL of a proxy must end with its path; it can't have a query or fragment")
    url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return ProxyAddress(url, port or _PORTS[parts.scheme], is_loopback(connectable(url)))


def find_token(place: ProxyAddress, environ: Mapping[str, str], token_file: Path | None = None) -> Token:
    """Return a proxy's token: from the given file; in a run of that proxy, from HIVEMIND_RUN_TOKEN; else from
    HIVEMIND_CONTROL_TOKEN, or from a local proxy's note.

    Raises: UsageError: there is none; the text says where to look. NoRunningProxy.
    """
    token = _given_token(place, environ, token_file)
    if token is not None and not place.local:
        return token
    if not place.local:
        raise UsageError(
            f"no token for {place.url}: put the proxy's control token in {TOKEN_VARIABLE}; on its machine it stands in"
            f" control-{place.port}.json in the state directory, unless it was started with one"
        )
    given = environ.get(STATE_VARIABLE)
    try:
        path = note_path(state_dir(Path(given) if given else None), place.port)
    except OSError as error:
        if token is not None:
            return token
        raise UsageError(f"no token for {place.url}: {error.strerror}; set {TOKEN_VARIABLE}") from None
    if token is not None:
        return replace(token, note=path)
    if not path.is_file():
        raise NoRunningProxy(
            f"no proxy of yours runs at {place.url} (there is no {path}); start one with hivemind proxy, or put its"
            f" control token in {TOKEN_VARIABLE}"
        )
    return replace(_read(path), note=path)


def _given_token(place: ProxyAddress, environ: Mapping[str, str], token_file: Path | None) -> Token | None:
    if token_file is not None:
        return _read(token_file)
    if environ.get(RUN_TOKEN_VARIABLE) and _is_of_run(place, environ):
        return Token(_checked(environ[RUN_TOKEN_VARIABLE], RUN_TOKEN_VARIABLE), RUN_TOKEN_VARIABLE)
    if environ.get(TOKEN_VARIABLE):
        return Token(_checked(environ[TOKEN_VARIABLE], TOKEN_VARIABLE), TOKEN_VARIABLE)
    return None


def run_of(place: ProxyAddress, environ: Mapping[str, str]) -> str | None:
    """Return the agent of the run in whose process this is, as its token says; None: it is in none of that proxy's."""
    token = environ.get(RUN_TOKEN_VARIABLE)
    if not token or not _is_of_run(place, environ):
        return None
    name = token.partition("-")[2].partition(".")[0]
    try:
        return base64.urlsafe_b64decode(name + "==").decode() or None
    except ValueError:
        return None


def _is_of_run(place: ProxyAddress, environ: Mapping[str, str]) -> bool:
    """Return whether the proxy is the one that the run's requests go to."""
    given = environ.get(URL_VARIABLE)
    if not given:
        return True
    own = parse_address(given)
    return own.url == place.url or (own.local and place.local and own.port == place.port)


def _read(file: Path) -> Token:
    try:
        return Token(_token_in(file), str(file), file)
    except IsADirectoryError:
        raise UsageError(f"{file}: is a directory; name the token file in it, such as control-8765.json") from None
    except OSError as error:
        raise UsageError(f"{file}: can't be read ({error.strerror})") from None


def _token_in(file: Path) -> str:
    """From a proxy's note, or from a file that holds nothing else. Raises: OSError, UsageError."""
    with file.open("rb") as opened:
        data = opened.read(_LONGEST + 1)
    text = data.decode("ascii", "replace").strip()
    if text.startswith("{"):
        with contextlib.suppress(ValueError):
            return _checked(note_in(data, file).token, str(file))
    wrong = _wrong_in(text, len(data))
    if wrong:
        raise UsageError(f"{file}: {wrong}; a token file is a proxy's note (control-PORT.json), or one line, the token")
    return text


def _wrong_in(text: str, size: int) -> str:
    """Return why a file of this size that begins so isn't one that holds a token alone; empty: it may be one."""
    pem = _PEM.match(text)
    if pem is not None:
        return f"is a PEM file ({pem[1].lower()}), as TLS uses them"
    if size > _LONGEST:
        return f"is longer than {_LONGEST >> 10} KiB"
    if not text:
        return "is empty"
    if text.startswith("{"):
        return "holds JSON that is no note of a proxy"
    lines = text.splitlines()
    if len(lines) > 1 and all(line.isascii() and line.isprintable() for line in lines):
        return f"has {len(lines)} lines"
    if not text.isascii() or not text.isprintable():
        return "holds other characters than printable ASCII"
    return "has a space in its line" if " " in text else ""


def _checked(text: str, origin: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(f"{origin}: a token is printable ASCII without spaces")
    return text


def local_url(host: str, port: int) -> str:
    """Return the URL by which an agent on the same machine reaches a proxy that listens there."""
    host = host.removeprefix("[").removesuffix("]")
    return connectable(f"http://{f'[{host}]' if ':' in host else host}:{port}")


def connectable(url: str) -> str:
    """Return a local server's URL as clients use it: one that listens on every address is reached on one."""
    for everywhere, one in (("//0.0.0.0", "//127.0.0.1"), ("//[::]", "//[::1]")):
        url = url.replace(everywhere, one, 1)
    return url
