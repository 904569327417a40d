"""The world as the events tell it: one fold, whose :class:`~hivemind.snapshot.Snapshot` everybody is shown."""

from .fold import World

__all__ = ["World"]
