"""Models of a provider, fitted to a recording."""
