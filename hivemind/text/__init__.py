"""Words, numbers and tables as people read and type them."""
