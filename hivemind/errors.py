"""What can go wrong before or beside the traffic.

::

    HiveMindError     root; the text is one line for people, free of credentials
     ├── UsageError   a flag, variable or file entry that can't be used (exit code 2)
     └── BindError    the listening address can't be had (exit code 1)

Endings of an upstream attempt have their own tree (:mod:`hivemind.upstream.base`), as has a command that can't
be carried out (:class:`hivemind.scheduler.commands.Rejected`).
"""

from __future__ import annotations


class HiveMindError(Exception):
    """Root of the tree. Printed as it is, so its text is one line and says what would be right."""

    exit_code = 1
    """Exit code of a program that it ends."""

    @property
    def lines(self) -> tuple[str, ...]:
        """What is printed; one line, but for a file with several mistakes."""
        return (str(self),)


class UsageError(HiveMindError):
    """What the user wrote can't be used; the text names it as it was written and what is allowed."""

    exit_code = 2


class BindError(HiveMindError):
    """The listening address is in use, not ours, or unknown."""

    def __init__(self, text: str, *, in_use: bool = False) -> None:
        super().__init__(text)
        self.in_use = in_use
