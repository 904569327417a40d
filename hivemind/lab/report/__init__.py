"""Reports of recorded runs: read in one pass, drawn, and written as HTML or Markdown."""
