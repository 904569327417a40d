"""The mock provider."""
