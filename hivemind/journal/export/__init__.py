"""Journals written out in other formats."""
