"""The scripts that the store runs."""

from __future__ import annotations

from importlib import resources

from hivemind.fleet.store import Script

ALLOCATOR = Script.of(resources.files("hivemind.fleet").joinpath("allocator.lua").read_text("utf-8"))
"""Divides what a lane has among the members. `tests/fleet/model/allocator.py` is the same in Python."""

BUDGETS = Script.of(resources.files("hivemind.fleet").joinpath("budgets.lua").read_text("utf-8"))
"""Divides what is left of budgets. `tests/fleet/model/budgets.py` is the same in Python."""
