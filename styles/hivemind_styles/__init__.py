"""Textual style sheets and themes, nothing else."""
