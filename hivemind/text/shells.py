"""Words and lines for the shells that people paste into.

Whatever is copied or printed to be pasted goes through :func:`word` or :func:`filled`, because names come from clients:
an agent may be called `x$(rm -rf ~)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Literal, get_args

Shell = Literal["bash", "fish", "powershell"]
"""`bash` stands for zsh and sh too."""
SHELLS: tuple[Shell, ...] = get_args(Shell)
TOKEN = "YOUR-TOKEN"
"""Stands for the proxy's token; a shell reads it from a variable instead."""
TOKEN_VARIABLE = "HIVEMIND_TOKEN"

# A word that no shell changes. A leading `=` names a program in zsh, a leading `%` a job or process in fish, a leading
# `@` is PowerShell's splatting and a comma its array; what begins with a hyphen is split at dots and colons there.
_BARE: Mapping[Shell, re.Pattern[str]] = {
    "bash": re.compile(r"[\w@%+:,./-][\w@%+=:,./-]*", re.ASCII),
    "fish": re.compile(r"[\w@+=:,./-][\w@%+=:,./-]*", re.ASCII),
    "powershell": re.compile(r"--?[A-Za-z][\w-]*|[\w/][\w%+=:./-]*", re.ASCII),
}
_SINGLE_QUOTES = re.compile("(['\u2018\u2019\u201a\u201b])")
"""PowerShell takes typographic quotes for plain ones: about_Quoting_Rules, and CharTraits.cs in its sources."""
_SPECIAL_IN_DOUBLE_QUOTES = re.compile('([`$"\u201c\u201d\u201e])')


def shell_of(environ: Mapping[str, str], system: str) -> Shell:
    """Return the shell of a user with this environment, on a system as `os.name` calls it."""
    name = PurePath(environ.get("SHELL", "")).name
    if name in ("fish", "pwsh"):
        return "fish" if name == "fish" else "powershell"
    return "powershell" if system == "nt" and not name else "bash"


def variable(shell: Shell, name: str) -> str:
    """Return how the shell reads a variable's value."""
    return f"$env:{name}" if shell == "powershell" else f"${name}"


def quoted(shell: Shell, text: str) -> str:
    """Return the text in single quotes, in which only the quote (and in fish the backslash) is special."""
    if shell == "powershell":
        return "'" + _SINGLE_QUOTES.sub(r"\1\1", text) + "'"
    if shell == "fish":
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "'\"'\"'") + "'"


def word(shell: Shell, text: str) -> str:
    """Return the text as one word of a command, unchanged by the shell."""
    return text if _BARE[shell].fullmatch(text) else quoted(shell, text)


def filled(shell: Shell, text: str) -> str:
    """Return one word in which the token's placeholder becomes the variable that holds the token."""
    if TOKEN not in text:
        return word(shell, text)
    # In double quotes variables are read; around them goes in single quotes what means more than itself there.
    read, parts = variable(shell, TOKEN_VARIABLE), text.split(TOKEN)
    if shell == "powershell":
        return '"' + read.join(_SPECIAL_IN_DOUBLE_QUOTES.sub(r"`\1", part) for part in parts) + '"'
    if all(not part or _BARE[shell].fullmatch(part) for part in parts):
        return '"' + read.join(parts) + '"'
    return f'"{read}"'.join(quoted(shell, part) if part else "" for part in parts)


def command_line(program: str, *words: str, then: str = "", shell: Shell = "bash") -> str:
    """Return a command that may be pasted: `hivemind budget alice AMOUNT`.

    `program` and `then` are our own text, used as is: `hivemind budget`, and what the reader fills in. The words may
    come from anywhere; none of them is taken for a flag.
    """
    guard = ["--"] if any(each.startswith("-") for each in words) else []
    return " ".join([program, *guard, *(word(shell, each) for each in words), *([then] if then else [])])


def exported(shell: Shell, name: str, text: str) -> str:
    """Return the line that gives a variable a value, as :func:`filled` has it, for programs started afterwards too."""
    bare = shell == "powershell" and filled(shell, text) == text
    return _assignment(shell, name, f'"{text}"' if bare else filled(shell, text))


def copied(shell: Shell, name: str, source: str) -> str:
    """Return the line that gives a variable another one's value."""
    value = variable(shell, source)
    return _assignment(shell, name, f'"{value}"' if shell == "bash" else value)


def removed(shell: Shell, *names: str) -> str:
    """Return the line that unsets variables."""
    if shell == "powershell":
        return "Remove-Item " + ", ".join(f"Env:{name}" for name in names)
    return " ".join(("set -e" if shell == "fish" else "unset", *names))


def curl(shell: Shell, url: str, *headers: str) -> str:
    """Return the line that fetches a URL; a header is a constant of ours that may read a variable."""
    program = "curl.exe" if shell == "powershell" else "curl"  # `curl` is another command in PowerShell
    return " ".join((program, "-s", *(f'-H "{header}"' for header in headers), filled(shell, url)))


def _assignment(shell: Shell, name: str, value: str) -> str:
    if shell == "powershell":
        return f"$env:{name} = {value}"
    return f"set -gx {name} {value}" if shell == "fish" else f"export {name}={value}"
