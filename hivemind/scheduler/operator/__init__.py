"""Operator commands and the knobs they turn."""
