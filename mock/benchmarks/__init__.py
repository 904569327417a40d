"""Benchmarks of the proxy, the screen and the journal. Not part of the wheel."""
