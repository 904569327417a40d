"""Journals that are read together: one, or those of several proxies as one run (:mod:`.merge`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.journal.read.damage import Damage
from hivemind.journal.read.merge import Merge, Numbered
from hivemind.journal.read.reader import Journal, counted_in, open_journal
from hivemind.journal.records import JournalBegan
from hivemind.scheduler.events import Event
from hivemind.text.humanise import first_few

_SAME_S = 1.0
"""Parts of one journal agree that well on how its clock relates to the time of day."""
_LANES_NAMED = 3
_SETTINGS_NAMED = 6


class Journals:
    """One journal, or several as one run. Raises: UsageError: two of them are the same journal."""

    def __init__(self, journals: Sequence[Journal]) -> None:
        self.each = tuple(journals)
        names = Counter(each.path.name for each in journals)
        self._names = [printable(each.path.name if names[each.path.name] == 1 else str(each.path)) for each in journals]
        for (one, name), (other, other_name) in combinations(zip(journals, self._names, strict=True), 2):
            _check_apart(one, name, other, other_name)
        self._merge = Merge([each.began for each in journals]) if len(journals) > 1 else None
        self.began: JournalBegan = journals[0].began if self._merge is None else self._merge.began

    @property
    def paths(self) -> tuple[Path, ...]:
        """The first file of each."""
        return tuple(each.path for each in self.each)

    @property
    def apart(self) -> bool:
        """Several proxies recorded them, each of which scheduled for itself."""
        return self._merge is not None and not self._merge.shared

    def requests(self) -> int:
        """Return how many requests arrived, by a plain search in the files. Raises: UsageError: one can't be read."""
        return sum(counted_in(journal.parts)[0] for journal in self.each)

    def events(self, without: frozenset[type[Event]] = frozenset()) -> Iterator[Numbered]:
        """Yield everything that can be read, in order, each with the index of its journal.

        Kinds can be left out, which saves their reading. Raises: UsageError: a first part can't be read.
        """
        if self._merge is None:
            for event in self.each[0].events(without):
                yield 0, event
        else:
            yield from self._merge.events([each.events(without) for each in self.each])

    def notes(self) -> list[str]:
        """Return what is wrong with the journals, and what they don't show, a line each; complete after the events."""
        merge = self._merge
        if merge is None:
            (journal,) = self.each
            return [
                *journal.damage.messages(),
                *_without_effect(journal.damage),
                *_one_member(journal.began),
                *_unknown(journal.began),
            ]
        return [*self._damage(), *self._strangers(merge), *self._times(merge), *self._settings(merge)]

    def named(self) -> Iterator[tuple[str, Journal]]:
        """Yield each journal by the name of its file, with its folder where several files have that name."""
        return zip(self._names, self.each, strict=True)

    def _damage(self) -> Iterator[str]:
        for name, journal in self.named():
            for line in (*journal.damage.messages(), *_without_effect(journal.damage)):
                yield f"{name}: {line}"

    def _strangers(self, merge: Merge) -> Iterator[str]:
        unshared = merge.unshared()
        if len(unshared) < len(self.each):
            for index in unshared:
                yield f"{self._names[index]} shares no lane with the others: its requests used other upstreams or keys"
            return
        lanes = "; ".join(
            f"{name}: {first_few(lanes, _LANES_NAMED) or 'none'}"
            for name, lanes in zip(self._names, merge.lanes, strict=True)
        )
        yield f"no two of these journals share a lane, so these proxies had no key in common ({printable(lanes)})"

    def _times(self, merge: Merge) -> Iterator[str]:
        spans = [(merge.began_at(index, journal.began), merge.ended[index]) for index, journal in enumerate(self.each)]
        for index, (began, ended) in enumerate(spans):
            others = [span for at, span in enumerate(spans) if at != index]
            if ended is not None and not any(
                other_ended is not None and began <= other_ended and other_began <= ended
                for other_began, other_ended in others
            ):
                yield (
                    f"{self._names[index]} is from another time than the others, by its clock:"
                    " nothing in it happened while they ran"
                )

    def _settings(self, merge: Merge) -> Iterator[str]:
        if merge.differing:
            first = self._names[merge.first]
            yield (
                f"the proxies' settings differ ({first_few(merge.differing, _SETTINGS_NAMED)}): of limits the"
                f" smallest is taken, of the rest what {first} has"
            )


def open_journals(paths: Path | Sequence[Path]) -> Journals:
    """Open a journal, or several of different proxies. Raises: UsageError: one can't be read, or is named twice."""
    return Journals([open_journal(path) for path in ((paths,) if isinstance(paths, Path) else paths)])


def _without_effect(damage: Damage) -> Iterator[str]:
    if damage.without_effect:
        have = "has" if len(damage.without_effect) == 1 else "have"
        yield f"it was recorded with {', '.join(damage.without_effect)}, which {have} no effect any more"


def _one_member(began: JournalBegan) -> Iterator[str]:
    if began.fleet:
        yield (
            "it was recorded in a fleet: requests of the other proxies that used the same keys aren't in it; name their"
            " journals too"
        )


def _check_apart(one: Journal, name: str, other: Journal, other_name: str) -> None:
    """Raises: UsageError: both are the same journal, or parts of it."""
    if one.path.resolve() == other.path.resolve():
        raise UsageError(f"{printable(one.path.name)}: is named twice")
    files = {each.resolve() for each in one.parts}
    together = any(each.resolve() in files for each in other.parts)
    mine, theirs = one.began, other.began
    apart_s = (mine.wall - mine.at) - (theirs.wall - theirs.at)
    if not together and (mine.journal != theirs.journal or abs(apart_s) > _SAME_S):
        return
    if mine.part == theirs.part:
        raise UsageError(f"{name}, {other_name}: are the same journal; name it once")
    if together:
        raise UsageError(f"{name}, {other_name}: are parts of one journal; name the first, which is read with the rest")
    raise UsageError(f"{name}, {other_name}: are parts of one journal; put them into one folder, and name the first")


def _unknown(began: JournalBegan) -> Iterator[str]:
    if began.not_recorded:
        yield f"not recorded: {began.not_recorded}"
