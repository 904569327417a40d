"""One key on many machines: proxies that share a credential schedule as one, by leases from a Redis or Valkey."""
