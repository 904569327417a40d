"""The parts of :mod:`hivemind.fleet.allocator`."""
