"""HiveMind: a transparent proxy that schedules LLM agents as an operating system schedules processes."""

__version__ = "0.4.0"
