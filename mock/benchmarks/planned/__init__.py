"""The mock provider with a plan of what it answers, and a tally of what it has announced."""
