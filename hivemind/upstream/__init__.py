"""HTTP clients for upstreams: one small interface, two implementations."""
