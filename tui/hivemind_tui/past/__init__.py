"""The last hours, read from the journal by a process of its own."""
