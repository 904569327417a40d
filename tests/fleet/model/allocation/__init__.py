"""The parts of :mod:`fleet.model.allocator`."""
