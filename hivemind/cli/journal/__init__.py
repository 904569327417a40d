"""Commands that read, export and import journals."""
