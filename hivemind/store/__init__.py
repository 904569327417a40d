"""What outlives the proxy: usage, budgets, decisions, tasks and runs, in a database of its own (SQLite)."""
