"""The proxy: raw ASGI on one side, an upstream client on the other, the scheduler in between."""
