"""`hivemind completion`: what a shell reads to complete commands and flags."""

from __future__ import annotations

import argparse

from hivemind.cli.commands import command_named, listing
from hivemind.cli.plugin import Command
from hivemind.errors import UsageError
from hivemind.parser import COMPLETED_SHELLS, completion_of

_EPILOG = """\
where it goes:
  bash        hivemind completion bash > ~/.local/share/bash-completion/completions/hivemind
  zsh         hivemind completion zsh > ~/.zfunc/_hivemind, and fpath+=~/.zfunc before compinit in ~/.zshrc
  fish        hivemind completion fish > ~/.config/fish/completions/hivemind.fish
  tcsh        hivemind completion tcsh >> ~/.tcshrc
  powershell  hivemind completion powershell >> $PROFILE

`hivemind-tui --print-completion SHELL` and `hivemind-mock --print-completion SHELL` print theirs."""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("shell", metavar="|".join(COMPLETED_SHELLS), help="whose script to print")


def _run(namespace: argparse.Namespace) -> int:
    from hivemind.cli.main import build_parser  # which imports every command for it

    names = filter(_loads, (name for rows in listing().values() for name in rows))
    print(completion_of(build_parser(names), namespace.shell))
    return 0


def _loads(name: str) -> bool:
    try:
        command_named(name)
    except UsageError:
        return False
    return True


command = Command(_configure, _run)
