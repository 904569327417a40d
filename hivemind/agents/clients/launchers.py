"""Programs that start a client from its package, past its shim: `npx @openai/codex`, `uvx --from aider-chat aider`."""

from __future__ import annotations

from hivemind.agents.clients.facts import Call
from hivemind.agents.clients.known import client_of, program_of

LAUNCHERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "npx": ((),),
    "npm": (("exec",), ("x",)),
    "pnpx": ((),),
    "pnpm": (("dlx",), ("exec",)),
    "bunx": ((),),
    "bun": (("x",),),
    "yarn": (("dlx",), ("exec",)),
    "uvx": ((),),
    "uv": (("tool", "run"), ("run",)),
    "pipx": (("run",),),
}
"""The sub-commands of each that start a package's program."""
_NODE_FLAGS = (
    *("-p", "--package", "-w", "--workspace", "--prefix", "--cache", "--registry", "--userconfig", "--loglevel"),
    *("-C", "--dir", "--filter"),
)
_PYTHON_FLAGS = (
    *("--from", "--with", "--python", "--spec", "--pip-args", "--directory", "--project", "--extra", "--group"),
    *("-i", "--index", "--default-index"),
    *(f"--{which}-url" for which in ("index", "extra-index")),
)
_WITH_VALUE = frozenset((*_NODE_FLAGS, *_PYTHON_FLAGS))
"""Flags whose value is the next word."""


def prepare(program: str, call: Call) -> None:
    """Change the call of a client, or of a launcher that starts one; any other is left as it is."""
    client = client_of(program)
    if client is not None:
        client.prepare(call)
    elif program in LAUNCHERS:
        _prepare_launched(program, call)


def _prepare_launched(program: str, call: Call) -> None:
    at = _package(program, call.arguments)
    client = None if at is None else client_of(program_of(call.arguments[at]))
    if at is None or client is None:
        return
    before, after = call.arguments[: at + 1], call.arguments[at + 1 :]
    if program == "npm" and "--" not in before:  # npm takes flags after the package for its own
        cut = after.index("--") if "--" in after else 0
        before, after = [*before, *after[:cut], "--"], after[cut + 1 :] if "--" in after else after
    call.arguments = after
    client.prepare(call)
    call.arguments = [*before, *call.arguments]


def _package(program: str, words: list[str]) -> int | None:
    """Return the position of the word that names the package or its program."""
    ways = LAUNCHERS[program]
    found: list[str] = []
    skip = False
    for at, word in enumerate(words):
        if skip or (word.startswith("-") and len(word) > 1):
            skip = not skip and word in _WITH_VALUE
            continue
        if tuple(found) in ways:
            return at
        found.append(word)
        if not any(way[: len(found)] == tuple(found) for way in ways):
            return None
    return None
