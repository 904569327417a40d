"""Textual widgets that the panels are painted with."""
