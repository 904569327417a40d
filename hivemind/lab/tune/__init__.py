"""Searching for better settings by simulation."""
