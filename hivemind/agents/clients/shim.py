"""Starts a run's client so that its requests take the run's path, however the client was called.

A program of its own that uses only the standard library and this package, so that it starts quickly. A script for each
client, at the front of the run's PATH, executes it (:mod:`.shims`)::

    python -I -S shim.py FOLDER LC_CTYPE NAME ARGUMENTS...

It finds the next program of that name on PATH, changes the call by the client's facts, and becomes that program. NAME
may be a path, too.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes milliseconds to import
import errno
import os
import sys

MARK = ".hivemind-shims"
"""A file by which a folder of shims is known, of another run or another HiveMind too."""


def main(argv: list[str]) -> int:
    """Become the client. Return an exit code, as a shell's, if that can't be done."""
    folder, locale, name, *arguments = argv
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)  # Python ignores them, and a program that is executed would, too
    environ = dict(os.environ)
    if locale:
        environ["LC_CTYPE"] = locale  # Python sets it where the locale is C
    else:
        environ.pop("LC_CTYPE", None)
    program = name if os.sep in name else next_program(name, environ.get("PATH", os.defpath))
    if program is None:
        os.write(2, f"hivemind: {name}: command not found\n".encode(errors="surrogateescape"))
        return 127
    try:
        arguments = _prepared(os.path.basename(name), arguments, environ, folder)
    except Exception as error:  # the client runs without it, and the run's end says so
        os.write(
            2, f"hivemind: {name} is started as it is ({type(error).__name__}: {error})\n".encode(errors="replace")
        )
    try:
        os.execve(program, [program, *arguments], environ)
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script without a first line that says who reads it
            os.execve("/bin/sh", ["/bin/sh", program, *arguments], environ)
        os.write(2, f"hivemind: {program}: {error.strerror}\n".encode(errors="surrogateescape"))
        return 127 if error.errno == errno.ENOENT else 126


def next_program(name: str, path: str) -> str | None:
    """Return the program that this PATH has of that name, shims aside."""
    for entry in path.split(os.pathsep):
        found = os.path.join(entry or os.curdir, name)
        if os.path.isfile(found) and os.access(found, os.X_OK) and not is_shims(entry or os.curdir):
            return found
    return None


def is_shims(folder: str) -> bool:
    """Return whether this is a folder of shims."""
    return os.path.exists(os.path.join(folder, MARK))


def _prepared(name: str, arguments: list[str], environ: dict[str, str], folder: str) -> list[str]:
    base = environ.get("HIVEMIND_ROUTE")
    if not base:
        return arguments  # outside of a run
    root = os.path.abspath(__file__)
    for _ in range(4):
        root = os.path.dirname(root)
    sys.path.append(root)
    from hivemind.agents.clients.facts import Call
    from hivemind.agents.clients.launchers import prepare

    call = Call(arguments, environ, base, folder, terminal=os.isatty(0) and os.isatty(1))
    prepare(name, call)
    if call.no_input:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
    return call.arguments


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
