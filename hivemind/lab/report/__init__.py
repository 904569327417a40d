"""What a run came to, on one page: read in one pass, drawn, and written as HTML or Markdown."""
