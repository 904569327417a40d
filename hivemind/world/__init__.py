"""The world as the events tell it: one fold, whose :class:`~hivemind.world.snapshot.Snapshot` everybody is shown."""
