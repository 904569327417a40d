"""The world as the events tell it: one fold, whose :class:`~hivemind.snapshot.Snapshot` everybody is shown."""

from hivemind.world.world import World

__all__ = ["World"]
