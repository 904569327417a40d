"""What outlives the proxy: usage, budgets, decisions, tasks and runs, in a database of its own (SQLite)."""

from __future__ import annotations

from .ledger import Ledger
from .opening import opened
from .records import Run
from .store import Store, read_runs

__all__ = ["Ledger", "Run", "Store", "opened", "read_runs"]
