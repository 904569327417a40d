"""Taking a client's arguments apart, as far as it must be known which of them is the prompt."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


class Syntax:
    """The options of a program that say what follows them. All others take no value, or one after `=`."""

    __slots__ = ("commands", "flags", "lists", "maybe", "values")

    def __init__(
        self, *, values: str = "", maybe: str = "", lists: str = "", flags: str = "", commands: str = ""
    ) -> None:
        """Each text holds options, or commands, separated by spaces."""
        self.values = frozenset(values.split())
        """These take the next word."""
        self.maybe = frozenset(maybe.split())
        """These take the next word unless it is an option."""
        self.lists = frozenset(lists.split())
        """These take all words up to the next option."""
        self.flags = frozenset(flags.split())
        """These certainly take none. A word after an option that isn't known may be its value."""

        self.commands = frozenset(commands.split())
        """Words that are a command rather than a prompt, and have no session."""


class Word:
    """An option with its values, or a word that is none."""

    __slots__ = ("doubtful", "name", "words")

    def __init__(self, name: str, words: list[str], doubtful: bool = False) -> None:
        self.name = name
        """Of the option; empty for any other word."""
        self.words = words
        """As they were given."""
        self.doubtful = doubtful
        """It may be the value of an option that isn't known, which stands before it."""

    @property
    def value(self) -> str:
        """The option's value, or the word."""
        if not self.name or len(self.words) > 1:
            return self.words[-1]
        return self.words[0].partition("=")[2]


def split(arguments: Iterable[str], syntax: Syntax) -> list[Word]:
    """Return the options and the other words in their order. A `--` is left out: what follows it are words."""
    found: list[Word] = []
    left = list(arguments)
    unknown = False
    while left:
        word = left.pop(0)
        if word == "--":
            found += [Word("", [each]) for each in left]
            break
        if not word.startswith("-") or word == "-":
            found.append(Word("", [word], unknown))
            unknown = False
            continue
        name, equals, _ = word.partition("=")
        if not word.startswith("--") and word[:2] in syntax.values and len(word) > 2:
            name, equals = word[:2], "="  # -mMODEL
        taken = [word]
        if not equals and name in syntax.values:
            taken += left[:1]
        elif not equals and name in syntax.maybe:
            taken += [each for each in left[:1] if not each.startswith("-")]
        elif not equals and name in syntax.lists:
            end = next((at for at, each in enumerate(left) if each.startswith("-") and each != "-"), len(left))
            taken += left[:end]
        unknown = not equals and len(taken) == 1 and name not in syntax.flags
        del left[: len(taken) - 1]
        found.append(Word(name, taken))
    return found


def value_of(arguments: Sequence[str], *names: str) -> str:
    """Return the last value that an option with one of these names is given; empty: none."""
    found = ""
    for number, word in enumerate(arguments):
        if word == "--":
            break
        start = _name_in(word, names)
        if start is not None:
            found = word[len(start) :] if start != word else "".join(arguments[number + 1 : number + 2])
    return found


def set_values(arguments: list[str], value: str, *names: str) -> None:
    """Change the values of these options, as far as they are given."""
    for number, word in enumerate(arguments):
        if word == "--":
            return
        start = _name_in(word, names)
        if start is not None and (start != word or arguments[number + 1 :]):
            arguments[number if start != word else number + 1] = start + value if start != word else value


def _name_in(word: str, names: Collection[str]) -> str | None:
    """Return what stands before an option's value: `--model` alone, `--model=`, or the `-m` of `-mMODEL`; None: the
    word is no option of these names."""
    name, equals, _ = word.partition("=")
    if name in names:
        return name + equals
    return word[:2] if word[:2] in names else None


def options(words: Iterable[Word], without: Collection[str] = ()) -> list[str]:
    """Return the arguments without these options and without the words that are surely none's value."""
    words = list(words)
    sure = any(not each.name and not each.doubtful for each in words)
    kept: list[str] = []
    for each in words:
        if each.name in without or (not each.name and not (each.doubtful and sure)):
            continue
        kept += each.words
    return kept


def prompt_in(words: Iterable[Word]) -> str:
    """Return the words that are surely no option's value, or all where that is sure of none."""
    plain = [each for each in words if not each.name]
    return " ".join(each.value for each in plain if not each.doubtful) or " ".join(each.value for each in plain)


def has(words: Iterable[Word], *names: str) -> bool:
    """Return whether one of these options is given."""
    return any(each.name in names for each in words)
