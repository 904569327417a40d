"""What the proxy costs: `hivemind perf` measures it against going direct, and against nginx."""
