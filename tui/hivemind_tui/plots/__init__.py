"""Curves: down-sampled, and drawn in character cells."""
