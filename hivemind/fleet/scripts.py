"""The scripts that the store runs."""

from __future__ import annotations

from importlib import resources

from hivemind.fleet.store import Script

ALLOCATOR = Script.of(resources.files("hivemind.fleet").joinpath("allocator.lua").read_text("utf-8"))
"""The function :func:`hivemind.fleet.allocator.sync`, as Redis runs it."""

BUDGETS = Script.of(resources.files("hivemind.fleet").joinpath("budgets.lua").read_text("utf-8"))
"""The function :func:`hivemind.fleet.budgets.sync`, as Redis runs it."""
