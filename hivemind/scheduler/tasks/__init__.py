"""The task graph, and what a task means for the agent that works on it."""
