"""Agents as processes: their places, starting them, and what is kept of them when they end."""
