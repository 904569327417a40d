"""Worlds that no model of the simulation describes exactly."""
