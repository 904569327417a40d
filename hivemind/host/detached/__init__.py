"""A proxy that outlives whoever started it: it has a session of its own, no terminal, and its log in a file."""
