"""The control room: a terminal screen that watches the scheduler and steers it."""
