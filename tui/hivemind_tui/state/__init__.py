"""The view: what is selected, filtered and shown."""
