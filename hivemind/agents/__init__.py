"""Agents as processes: running one, batches of tasks, and attempts that outlive their runner."""
