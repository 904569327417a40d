"""Mock agents, and the demo made of them."""
