"""A parser of command lines whose errors are one line with a suggestion, and the shell completion of any parser.

Apart from the settings, whose model takes longer to import than a small command may take in all.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NoReturn

from hivemind.errors import UsageError
from hivemind.text.humanise import did_you_mean, listed

_SHORTEST_BEGINNING = len("--no")
_VERY_CLOSE = 0.85
"""How alike a flag and a misspelt one are from which on no other can be meant."""
_COSTS = "page 8 of the control room has what each cost, of a recording by `hivemind-tui --replay FILE`"
_KEPT = "the setting checkpoint.keep bounds what is kept; prune leaves the newest of each agent"
_LOGS = "`hivemind logs -f` follows a proxy"
_BOTH = "the answer, with --json too, has the figures of both runs"
_REMOVED: Mapping[str, Mapping[str, str]] = {
    "hivemind-mock": {
        "--plan": "`benchmarks.planned` of the source answers with calls of tools",
        "--speed": "`benchmarks.planned` of the source has a clock that runs faster",
    },
    "hivemind checkpoints": {"--keep": _KEPT, "--older-than": _KEPT},
    "hivemind journal show": {"--follow": _LOGS, "-f": _LOGS},
    "hivemind journal stats": {"--by": _COSTS, "--csv": _COSTS, "--last": _COSTS},
    "hivemind what-if": {"--force": _BOTH, "--out": _BOTH},
}
"""By command the flags of earlier versions, and what there is instead."""


class Parser(argparse.ArgumentParser):
    """`-` and `_` are the same in a flag's name, names can't be abbreviated, and errors are a :class:`UsageError`."""

    rest: str | None = None
    """Where in the namespace what follows `--` goes, as a list; argparse itself would take it for what is missing."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **kwargs, "allow_abbrev": False})
        self.elsewhere: dict[str, str] = {}
        """By flag that isn't taken here what to say of it: where it is."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As the base class has it, but nothing may be left over.

        Raises: UsageError.
        """
        given = None if args is None else with_hyphens(args)
        rest: list[str] = []
        if self.rest is not None and given is not None and "--" in given:
            place = given.index("--")
            given, rest = given[:place], given[place + 1 :]
        self._refuse_unknown(given or [])
        parsed, extra = super().parse_known_args(given, namespace)
        if self.rest is not None:
            setattr(parsed, self.rest, rest)
        extra = self._taken(extra, parsed)
        if extra:
            self._refuse(extra[0])
        return parsed, extra

    def _refuse_unknown(self, given: Sequence[str]) -> None:
        """Refuse a flag that there isn't before argparse takes its value for something else."""
        forwards = any(each.nargs in (argparse.PARSER, argparse.REMAINDER) for each in self._actions)
        if forwards or {"-h", "--help"}.intersection(given):
            return  # what follows is for another parser, or no flag of ours; and the help is shown all the same
        for word in takewhile(lambda each: each != "--", given):
            if word.startswith("--") and " " not in word and word.partition("=")[0] not in self._option_string_actions:
                self._refuse(word)

    def _taken(self, extra: list[str], namespace: Any) -> list[str]:
        """Add words that stand after a flag to the last positional argument that takes any number, as argparse itself
        doesn't. Return what is left."""
        many = next((each for each in reversed(self._actions) if not each.option_strings and each.nargs == "*"), None)
        if many is None or any(each.startswith("-") for each in extra):
            return extra
        setattr(namespace, many.dest, [*getattr(namespace, many.dest), *extra])
        return []

    def _refuse(self, argument: str) -> NoReturn:
        if not argument.startswith("-"):
            # It may be the second half of a secret, so it isn't repeated.
            hint = "; a URL goes after --upstream" if "://" in argument else f"; see {self.prog} --help"
            raise UsageError(f"an argument too many, one that belongs to no flag{hint}")
        name = argument.partition("=")[0]
        if name in self.elsewhere:
            raise UsageError(f"{name}: {self.elsewhere[name]}")
        if (instead := _REMOVED.get(self.prog, {}).get(name)) is not None:
            raise UsageError(f"{name}: is no longer a flag; {instead}")
        raise UsageError(f"{name}: no such flag{self._hint(name) or '; see --help'}")

    def _hint(self, wrong: str) -> str:
        """Suggest a flag: of those that the help shows one that begins so, or is very close; else the closest of all,
        the settings that a command takes besides its own included."""
        shown = [flag for flag, action in self._option_string_actions.items() if action.help is not argparse.SUPPRESS]
        longer = [flag for flag in shown if flag.startswith(wrong)] if len(wrong) >= _SHORTEST_BEGINNING else []
        return (
            did_you_mean(wrong, longer, at_least=0)
            or did_you_mean(wrong, shown, at_least=_VERY_CLOSE)
            or did_you_mean(wrong, self._option_string_actions)
        )


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=110)

    # A flag that is broken at its hyphens can't be copied.
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in self._split_lines(text, width - len(indent)))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def with_hyphens(args: Sequence[str]) -> list[str]:
    """Write `--max_concurrency` as `--max-concurrency`; values, and all after `--`, stay as they are."""
    shown: list[str] = []
    for place, arg in enumerate(args):
        if arg == "--":
            return [*shown, *args[place:]]
        name, equals, value = arg.partition("=")
        shown.append((name.replace("_", "-") if name.startswith("--") else name) + equals + value)
    return shown


COMPLETED_SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")


class PrintCompletion(argparse.Action):
    """A flag that prints the shell completion of the parser it is added to, and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(
            option_strings,
            argparse.SUPPRESS,
            metavar="|".join(COMPLETED_SHELLS),
            help="print what makes a shell complete these flags, and exit",
        )

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        print(completion_of(parser, values))
        parser.exit()


def completion_of(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that makes a shell complete the parser's commands, flags, names to choose from and files.

    Raises: UsageError: there is none for that shell.
    """
    if shell not in COMPLETED_SHELLS:
        raise UsageError(f"{shell[:40]}: must be {listed(COMPLETED_SHELLS)}")
    import shtab

    kinds = {"FILE": shtab.FILE, "FOLDER": shtab.DIRECTORY}
    for action in _actions(parser):
        if isinstance(action.metavar, str) and "|" in action.metavar:
            action.choices = action.metavar.split("|")
        elif action.metavar in kinds:
            action.complete = kinds[action.metavar]  # type: ignore[attr-defined]  # where shtab looks for it
    script: str = shtab.complete(parser, shell)
    return script


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _actions(each)
