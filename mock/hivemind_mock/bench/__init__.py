"""The benchmark of scenarios: agents with and without HiveMind."""
