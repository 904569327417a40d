"""The control API: the proxy's state over HTTP, and commands to change it."""
