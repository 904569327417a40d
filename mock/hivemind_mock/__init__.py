"""The fault-injecting provider, mock agents, the scenarios and the benchmark."""
