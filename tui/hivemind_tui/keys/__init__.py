"""The keys: one table, from which bindings, footer, help, palette and the manual are made."""
