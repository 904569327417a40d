"""The fold of events into the world, whose :class:`~hivemind.world.snapshot.Snapshot` all screens show."""
