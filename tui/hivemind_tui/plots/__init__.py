"""Curves: down-sampled here, drawn by plotext in a process of its own."""
