"""A fleet measured: proxies that share one key, a real Redis between them, and a provider that counts."""
