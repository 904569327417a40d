"""Pure functions from values to styled text."""
