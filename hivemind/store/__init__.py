"""What outlives the proxy: usage, budgets, decisions, tasks and runs, in a database of its own (SQLite)."""

from __future__ import annotations

from hivemind.store.ledger import Ledger
from hivemind.store.opening import opened
from hivemind.store.records import Run
from hivemind.store.store import Store, read_runs

__all__ = ["Ledger", "Run", "Store", "opened", "read_runs"]
