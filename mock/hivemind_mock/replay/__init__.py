"""A recording run again for real: its agents, the proxy, and a mock provider that does what was fitted."""
