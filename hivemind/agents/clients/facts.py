"""The facts of one client, and what they do to a call of its program."""

from __future__ import annotations

import os
import stat

from hivemind.setup.routes import SUFFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ROUTE_VARIABLE = "HIVEMIND_ROUTE"
"""The base URL of a run's own path, with the token if there is one."""
RESUME_VARIABLE = "HIVEMIND_RESUME_SESSION"
"""The session that the run's client is to continue: `KIND:SESSION`, as in `claude-code:0199-...`."""
RESUME_FILE_VARIABLE = "HIVEMIND_RESUME_FILE"
"""A file that the call which continues the session removes, so that no other does. It holds the prompts of which the
session is one's, as a JSON list; empty: of whichever call comes first."""
GO_ON = "You were interrupted. Go on from where you stopped; don't repeat what is done already."
"""The prompt of a session that is resumed, in place of the original one."""
AZURE = "AZURE_OPENAI_ENDPOINT"
"""Only set before an upstream at Azure, because SDKs take another path with it."""


_ABOUT_ITSELF = frozenset(("-h", "--help", "-V", "--version", "login", "logout", "auth"))
"""With these a client sends no request to a model."""


class Call:
    """A call of a client's program, which its facts change before it is started."""

    __slots__ = ("arguments", "base", "environ", "folder", "named", "no_input", "terminal")

    def __init__(
        self, arguments: list[str], environ: dict[str, str], base: str, folder: str = "", terminal: bool = False
    ) -> None:
        self.arguments = arguments
        """What follows the program's name."""
        self.environ = environ
        self.base = base
        """The base URL of the run's path, with the token if there is one; no slash at the end."""
        self.folder = folder
        """A folder for files that only this user can read; empty: there is none."""
        self.terminal = terminal
        """Standard input and output are a terminal."""
        self.no_input = False
        """The program is to be started with an empty standard input, because the original prompt came from there."""
        head, _, agent = base.rpartition("/agent/")
        self.named = f"{head.rpartition('/token/')[0] or head}/agent/{agent}"
        """The base URL without the token: other users can read command lines."""

    @property
    def token(self) -> bool:
        """Requests need a token, which is in `base` and in HIVEMIND_TOKEN."""
        return self.named != self.base

    def base_with(self, token: str) -> str:
        """Return the base URL with that in place of the token, if there is one."""
        head, _, agent = self.named.rpartition("/agent/")
        return f"{head}/token/{token}/agent/{agent}" if self.token else self.base

    def kept(self, name: str, text: str) -> str | None:
        """Write a file that only this user can read, once for each text. Return its path; None: it can't be written."""
        import hashlib

        digest = hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).hexdigest()
        path = os.path.join(self.folder, f"{digest}-{name}")
        draft = f"{path}.{os.getpid()}"
        try:
            if not self.folder:
                return None
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", -1, "utf-8") as file:
                file.write(text)
            os.replace(draft, path)
        except OSError:
            return None
        return path


def read_text(path: str, *, given: bool = False) -> str:
    """Return the text of a file of settings. Raises: OSError: it can't be read, or is a device or, unless the user has
    `given` it for this call, a pipe: these might hold the client for ever. ValueError: it is no text."""
    kind = os.stat(path).st_mode
    if not (stat.S_ISREG(kind) or (given and stat.S_ISFIFO(kind))):
        raise OSError
    with open(path, encoding="utf-8") as file:
        return file.read()


def read_json(*path: str, given: bool = False) -> dict[str, object]:
    """Return the object in a JSON file (:func:`read_text`); empty: it holds none, or can't be read."""
    try:
        return at(loads(read_text(os.path.join(*path), given=given)))
    except (OSError, ValueError):
        return {}


def read_toml(*path: str) -> dict[str, object]:
    """Return the table in a TOML file; empty: it can't be read."""
    import tomllib

    try:
        return tomllib.loads(read_text(os.path.join(*path)))
    except (OSError, ValueError, RecursionError):
        return {}


def parse_json(text: str) -> dict[str, object]:
    """Return the object in a JSON text (:func:`loads`); empty: it holds none."""
    try:
        return at(loads(text))
    except ValueError:
        return {}


def loads(text: str) -> object:
    """Return the value of a JSON text, which may have comments, and commas at ends. Raises: ValueError: it is none."""
    import json  # takes as long as all else here

    try:
        try:
            return json.loads(text)
        except ValueError:
            return json.loads(_without_comments(text))
    except RecursionError as error:
        raise ValueError from error


def _without_comments(text: str) -> str:
    import re

    string = r'("(?:\\.|[^"\\])*(?:"|\Z))'
    for rest, instead in ((r"//[^\n]*|/\*.*?(?:\*/|\Z)", " "), (r",(?=\s*[}\]])", "")):
        text = re.sub(f"{string}|{rest}", lambda found, instead=instead: found[1] or instead, text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def listed(value: object) -> list[dict[str, object]]:
    """Return the objects in a list; empty: it is none."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def at(content: object, *keys: str) -> dict[str, object]:
    """Return an object within a JSON value; empty: there is none."""
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


def home(environ: dict[str, str]) -> str:
    """Return the user's home as a full path, so that no file of the working directory passes for the user's own."""
    named = environ.get("HOME", "")
    if os.path.isabs(named):
        return named
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.devnull  # no file is below it


def has_file(folder: str, *ends: str) -> bool:
    """Return whether a file whose name ends so is anywhere in a folder."""
    return any(each.endswith(ends) for _, _, files in os.walk(folder) for each in files)


class Client:
    """What is known of a client."""

    __slots__ = ("flags", "kind", "past", "programs", "prompt", "resume", "variables")

    def __init__(
        self,
        kind: str,
        *programs: str,
        variables: Callable[[Call], object] = lambda call: None,
        flags: Callable[[Call], object] = lambda call: None,
        resume: Callable[[Call, str], str | None] | None = None,
        prompt: Callable[[Call], str] | None = None,
        past: Callable[[Call], str] = lambda call: "",
    ) -> None:
        self.kind = kind
        """As :class:`hivemind.providers.clients.Client` names it: `claude-code`, `codex`."""
        self.programs = programs
        """The names of its program."""
        self.variables = variables
        """Set its variables, besides those that every SDK reads. Every program of a run gets them."""
        self.flags = flags
        """Change the arguments so that requests take the run's path; may be called twice for one call."""
        self.resume = resume
        """Change the arguments so that it continues this session instead of its prompt. Returns why it can't,
        in words, or None. None: no session of this client can be continued."""
        self.prompt = prompt
        """Return the prompt among a call's arguments; empty: there is none."""
        self.past = past
        """Return why requests of this call won't take the run's path, in words; empty: they will."""

    def prepare(self, call: Call) -> None:
        """Change a call so that it takes the run's path, and continues the session to resume if it is this client's."""
        kind, _, session = call.environ.get(RESUME_VARIABLE, "").partition(":")
        if session and kind == self.kind and self.resume is not None:
            self._resume(call, session)
        asked = call.arguments[:]
        set_variables(call, azure=AZURE in call.environ)
        self.variables(call)
        self.flags(call)
        if not _ABOUT_ITSELF.intersection(asked) and (why := self.past(call)):
            os.write(2, f"hivemind: {self.programs[0]}'s requests go past HiveMind: {why}\n".encode(errors="replace"))

    def _resume(self, call: Call, session: str) -> None:
        file = call.environ.get(RESUME_FILE_VARIABLE, "")
        given = "" if self.prompt is None else _plain(self.prompt(call))
        wanted = _prompts(file)
        if given and wanted and given not in wanted:
            return  # the session is another call's
        if file:
            try:
                os.unlink(file)
            except OSError:
                session = ""  # another call continues it
        for name in (RESUME_VARIABLE, RESUME_FILE_VARIABLE):
            call.environ.pop(name, None)  # what the client starts is another session
        if session and self.resume is not None:
            why = self.resume(call, session)
            if why is not None:
                os.write(2, f"hivemind: {self.kind} starts anew: {why}\n".encode(errors="replace"))


def set_variables(call: Call, *, azure: bool) -> None:
    """Set the base URL variables of all SDKs. `azure`: there is an upstream at Azure."""
    call.environ.update({name: call.base + end for name, end in SUFFIXES.items() if name != AZURE or azure})


def _prompts(file: str) -> list[str]:
    import json

    try:
        found = json.loads(read_text(file))
    except (OSError, ValueError):
        return []
    return [_plain(each) for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _plain(text: str) -> str:
    """Return a text without the spacing and the quotes that clients add."""
    return " ".join(text.split()).strip('"')
