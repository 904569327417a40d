"""What the control room wants of a journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hivemind.world.request_view import RequestDetail
from hivemind.world.world import World
from hivemind_tui.sources.playback import Column, Marked


class Player(Protocol):
    """A journal that can be looked at at any moment. All moments are on its own clock."""

    @property
    def begins_at(self) -> float:
        """The moment of its first event."""

    @property
    def ends_at(self) -> float:
        """Its last one, so far."""

    @property
    def wall_offset_s(self) -> float:
        """To the time of day, in seconds since the epoch."""

    @property
    def growing(self) -> bool:
        """Somebody still writes it."""

    @property
    def world(self) -> World:
        """As of the moment reached."""

    @property
    def bodies(self) -> bool:
        """What was sent and answered was recorded too."""

    @property
    def approximate(self) -> bool:
        """That world was put together from the last stretch before the moment alone."""

    @property
    def known_to(self) -> float:
        """Share that is read through; 1: all."""

    @property
    def marks(self) -> Sequence[Marked]:
        """What is worth a look, as far as it is known, by time."""

    @property
    def damage(self) -> Sequence[str]:
        """What is wrong with it, as far as that was seen."""

    def overview(self, columns: int) -> Sequence[Column | None]:
        """What went on, in so many equal pieces."""

    def look(self) -> bool:
        """Whether more was written or read through since the last look."""

    def seek(self, at: float) -> None:
        """Be at that moment, with all that happened up to it. Raises: UsageError: it can't be read any more."""

    def advance(self, to_at: float, budget_s: float) -> float:
        """Fold what happened up to that moment, for about so long at most; answers the moment reached.

        Raises: UsageError: it can't be read any more.
        """

    def with_heads(self, detail: RequestDetail) -> RequestDetail:
        """The same with method, path and headers, as far as they can be found. Reads files, so it is for a thread."""

    def event_after(self, at: float) -> tuple[float, str] | None:
        """The next thing that happened, in words; None: nothing did. Raises: UsageError."""

    def event_before(self, at: float) -> tuple[float, str] | None:
        """The last thing that happened before this moment. Raises: UsageError."""
