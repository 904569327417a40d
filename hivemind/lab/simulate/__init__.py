"""Simulating recorded traffic under other settings."""
