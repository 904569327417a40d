"""Worlds: providers with hidden parameters, and the agents that use them, drawn from a seed."""
