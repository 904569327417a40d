"""Keys, the palette and the commands they send."""
