"""Predictions of changed settings, with intervals that cover what really comes."""
