"""Lines that set, read and remove variables, in the shells that people use."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Literal, get_args

Shell = Literal["bash", "fish", "powershell"]
"""`bash` stands for zsh and sh too."""
SHELLS: tuple[Shell, ...] = get_args(Shell)
TOKEN = "YOUR-TOKEN"
"""Stands for the proxy's token; a shell reads it from a variable instead."""
TOKEN_VARIABLE = "HIVEMIND_TOKEN"


def shell_of(environ: Mapping[str, str], system: str) -> Shell:
    """The shell that somebody with this environment uses, on a system as `os.name` calls it."""
    name = PurePath(environ.get("SHELL", "")).name
    if name in ("fish", "pwsh"):
        return "fish" if name == "fish" else "powershell"
    return "powershell" if system == "nt" and not name else "bash"


def variable(shell: Shell, name: str) -> str:
    """How its value is read."""
    return f"$env:{name}" if shell == "powershell" else f"${name}"


def word(shell: Shell, text: str) -> str:
    """A text as one word of a command; the token's place becomes the variable that holds it."""
    if TOKEN in text:
        # Everything else in such a text is a URL's or a name's plain characters, which double quotes leave alone.
        return '"' + text.replace(TOKEN, variable(shell, TOKEN_VARIABLE)) + '"'
    if re.fullmatch(r"[\w@%+=:,./-]+", text, re.ASCII):
        return text
    if shell == "powershell":
        return "'" + text.replace("'", "''") + "'"
    if shell == "fish":
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return shlex.quote(text)


def exported(shell: Shell, name: str, text: str) -> str:
    """The line that gives a variable a value, for programs started afterwards too."""
    return _assignment(shell, name, f'"{text}"' if shell == "powershell" and _is_bare(text) else word(shell, text))


def copied(shell: Shell, name: str, source: str) -> str:
    """The line that gives a variable another one's value."""
    value = variable(shell, source)
    return _assignment(shell, name, f'"{value}"' if shell == "bash" else value)


def removed(shell: Shell, *names: str) -> str:
    """The line that takes variables away again."""
    if shell == "powershell":
        return "Remove-Item " + ", ".join(f"Env:{name}" for name in names)
    return " ".join(("set -e" if shell == "fish" else "unset", *names))


def curl(shell: Shell, url: str, *headers: str) -> str:
    """The line that fetches a URL; a header may read a variable."""
    program = "curl.exe" if shell == "powershell" else "curl"  # PowerShell has something else by the name of curl
    return " ".join((program, "-s", *(f'-H "{header}"' for header in headers), word(shell, url)))


def _assignment(shell: Shell, name: str, value: str) -> str:
    if shell == "powershell":
        return f"$env:{name} = {value}"
    return f"set -gx {name} {value}" if shell == "fish" else f"export {name}={value}"


def _is_bare(text: str) -> bool:
    return word("powershell", text) == text
