"""Explanations for people: why a ticket waits, and until when."""
