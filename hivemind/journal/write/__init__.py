"""Writing a journal: recorder, background writer and segment files."""
