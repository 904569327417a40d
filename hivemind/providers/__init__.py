"""Wire knowledge: dialects by path, profiles by upstream."""
