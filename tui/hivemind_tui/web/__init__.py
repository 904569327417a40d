"""The control room in a browser: `hivemind web`, through textual-serve."""
