"""Other programs' recordings of HTTP, read as journals: HAR files and mitmproxy's dumps."""
