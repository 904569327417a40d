"""opencode, and Kilo, which is made of it: https://opencode.ai/docs/config, https://kilo.ai/docs/cli"""

from __future__ import annotations

import os

from hivemind.agents.clients.arguments import Syntax, has, options, prompt_in, split
from hivemind.agents.clients.facts import GO_ON, Call, Client, home, loads, parse_json, read_json
from hivemind.setup.routes import INLINE_TOKEN, opencode_providers


def _merged(given: object, ours: dict[str, object]) -> dict[str, object]:
    """Return both, ours where they differ. Raises: TypeError: `given` isn't an object."""
    if not isinstance(given, dict):
        raise TypeError
    found = {**given}
    for key, value in ours.items():
        found[key] = _merged(given.get(key, {}), value) if isinstance(value, dict) else value
    return found


_SYNTAX = Syntax(
    values="--log-level --command -s --session -m --model --agent --format --title --attach -p --password -u --username"
    " --dir --port --variant --hostname --mdns-domain --prompt --replay-limit --worktree",
    lists="-f --file --cors",
    flags="--print-logs --pure -c --continue --fork --share --thinking -i --interactive --auto --mdns --mini"
    " --no-replay --cloud-fork",
    commands="acp agent attach auth cloud completion config console daemon db debug export github help import mcp"
    " models plug plugin pr profile providers remote roll-call serve session stats uninstall upgrade web worktree",
)
"""`opencode --help` and `opencode run --help` of 1.18, and Kilo's of 7.7."""
_OTHER_SESSION = frozenset(("-s", "--session", "-c", "--continue", "--fork", "--title", "--prompt", "--command"))
_ATTACHED = frozenset(("-f", "--file"))
"""To the original prompt."""


def _prompt(call: Call) -> str:
    words = split(call.arguments, _SYNTAX)
    plain = [each for each in words if not each.name]
    if plain and plain[0].value == "run":
        words.remove(plain[0])
        return prompt_in(words)
    return next((each.value for each in words if each.name == "--prompt"), "")


def _resume(call: Call, session: str) -> str | None:
    words = split(call.arguments, _SYNTAX)
    plain = [each for each in words if not each.name]
    command = plain[0].value if plain else ""
    if command in _SYNTAX.commands:
        return f"its command `{command}` has no session"
    if command == "run":
        words.remove(plain[0])
        shown = has(words, "-i", "--interactive")
        prompt = [GO_ON] if not shown or prompt_in(words) else []
        call.arguments[:] = ["run", *options(words, _OTHER_SESSION | _ATTACHED), "--session", session, *prompt]
        call.no_input = not shown
    else:
        asked = has(words, "--prompt")
        kept = [each for word in words if word.name not in _OTHER_SESSION for each in word.words]  # and its project
        call.arguments[:] = [*kept, "--session", session, *(["--prompt", GO_ON] if asked else [])]
    return None


def _projects() -> list[str]:
    """Return the folders with the files of a project, the nearest first: the working directory and those above it, up
    to that of the repository."""
    try:
        found = [os.getcwd()]
    except OSError:
        return []  # it was removed
    while not os.path.exists(os.path.join(found[-1], ".git")) and (above := os.path.dirname(found[-1])) != found[-1]:
        found.append(above)
    return found


def _client(kind: str, folders: tuple[str, ...], *programs: str) -> Client:
    variable = f"{kind.upper()}_CONFIG_CONTENT"  # configuration that overrides that of files

    def variables(call: Call) -> None:
        import json

        ours: dict[str, object] = {"provider": opencode_providers(call.base_with(INLINE_TOKEN) + "/v1")}
        try:
            call.environ[variable] = json.dumps(_merged(loads(call.environ.get(variable) or "{}"), ours))
        except (ValueError, TypeError):
            return  # the client itself says what is wrong with it

    def past(call: Call) -> str:
        config = call.environ.get("XDG_CONFIG_HOME") or os.path.join(home(call.environ), ".config")
        projects = _projects()
        own = (
            *(os.path.join(project, each, kind) for project in projects for each in folders),
            *(os.path.join(project, kind) for project in projects),
        )
        users = (os.path.join(config, kind, each) for each in (kind, "config"))
        paths = [f"{each}{end}" for each in (*own, *users) for end in (".jsonc", ".json")]
        paths.insert(2 * len(own), call.environ.get(f"{kind.upper()}_CONFIG", ""))
        files = (parse_json(call.environ.get(variable, "")), *map(read_json, paths))
        used = next((each["model"] for each in files if "model" in each), "")
        model = next((each.value for each in split(call.arguments, _SYNTAX) if each.name in ("-m", "--model")), used)
        provider, slash, _ = str(model).partition("/")
        return "" if not slash or provider in opencode_providers("") else f"they go to its provider {provider}"

    return Client(kind, *programs, variables=variables, resume=_resume, prompt=_prompt, past=past)


CLIENTS = {
    program: client
    for client in (
        _client("opencode", (".opencode",), "opencode"),
        _client("kilo", (".kilo", ".kilocode"), "kilo", "kilocode"),
    )
    for program in client.programs
}
