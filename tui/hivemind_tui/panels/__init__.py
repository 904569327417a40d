"""What the screen shows: one panel a file, each a pure function from a view to rows of text."""
