"""The event loop that screen and proxy share, and what keeps its delays small."""
