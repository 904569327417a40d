"""What the proxy says of itself over HTTP."""
