"""What is wrong with a journal, found on the way and told in words."""

from __future__ import annotations

from dataclasses import dataclass, field

from hivemind.journal.records import VERSION
from hivemind.text.humanise import plural

_TOLD_EACH = 3
"""Of what may happen often, the first few are told one by one."""


@dataclass(slots=True)
class Damage:
    """What was found wrong on the way, for people."""

    bad_lines: int = 0
    first_bad: str = ""
    """Where the first of them was, and what was wrong with it."""
    torn: bool = False
    """The last line isn't whole: the writer was cut off."""
    newer: int = 0
    """Lines of a newer version that aren't understood."""
    newer_version: int = 0
    """Of such lines, or of a part's first line; 0: nothing is newer."""
    gaps: int = 0
    lost: int = 0
    """Lines that the writer had to drop, in so many gaps."""
    gap_why: str = ""
    """Why, where all of them have the same reason."""
    ended: bool = False
    """The writer ended in good order."""
    guessed: str = ""
    """By what times of day were guessed, where the first line doesn't tell."""
    part: int = 1
    """The first that was read."""
    missing: list[str] = field(default_factory=list)
    """Files of parts that aren't there, though later ones are."""
    unread: list[str] = field(default_factory=list)
    """Files of parts that can't be read, and why."""
    others: list[str] = field(default_factory=list)
    """Where another journal begins in the midst of a file."""
    backwards: int = 0
    """Times that the clock went back."""
    first_backwards: str = ""

    def gap(self, lost: int, why: str) -> None:
        """The writer dropped so many lines."""
        why = "".join(letter if letter.isprintable() else "?" for letter in why[:80])
        self.gap_why = why if not self.gaps or why == self.gap_why else ""
        self.gaps += 1
        self.lost += lost

    def messages(self) -> list[str]:
        """One line for each thing that is wrong; none where nothing is."""
        lines = []
        if self.part > 1:
            lines.append(f"begins with part {self.part}: what was in the parts before isn't here")
        lines += self._version_messages()
        if self.guessed:
            lines.append(f"its first line can't be read, so times of day are guessed by {self.guessed}")
        if self.bad_lines:
            first = "it is" if self.bad_lines == 1 else "the first is"
            lines.append(f"{plural(self.bad_lines, 'line')} can't be read and left out; {first} {self.first_bad}")
        if self.torn:
            lines.append("the last line isn't whole: the program that wrote it was killed, or the disk was full")
        if self.gaps:
            are = "event is" if self.lost == 1 else "events are"
            where = "a gap" if self.gaps == 1 else f"{self.gaps:,} gaps"
            why = self.gap_why or "the disk was full, slow or gone"
            lines.append(f"{self.lost:,} {are} missing in {where}: {why}")
        if self.backwards:
            how_often = "once" if self.backwards == 1 else f"{self.backwards:,} times"
            lines.append(f"the clock goes back {how_often}, the first time at {self.first_backwards}")
        for file in _some(self.missing):
            lines.append(f"{file} is missing; what comes after it is read all the same")
        lines += _some(self.unread)
        lines += _some(self.others)
        return lines

    def _version_messages(self) -> list[str]:
        if not self.newer_version:
            return []
        text = (
            f"written by a newer HiveMind (version {self.newer_version}, this one reads {VERSION}); update to see all"
        )
        if self.newer:
            are = "line isn't" if self.newer == 1 else "lines aren't"
            return [f"{text}: {self.newer:,} {are} understood and left out"]
        return [f"{text}; everything that is known here is read"]


def _some(texts: list[str]) -> list[str]:
    more = [f"and {len(texts) - _TOLD_EACH:,} more like that"] if len(texts) > _TOLD_EACH else []
    return [*texts[:_TOLD_EACH], *more]
