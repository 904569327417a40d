"""What the proxy says of itself over HTTP, and how it is steered from elsewhere."""
