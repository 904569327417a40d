"""Other programs' recordings, read as journals: logs of clients and gateways, traces, HAR files, mitmproxy's dumps."""

FORMATS = (
    "Claude Code's sessions, Codex's rollouts, LiteLLM's spend logs, exports of Helicone, Langfuse and Phoenix,"
    " OpenTelemetry's spans as JSON, HAR, mitmproxy's dumps, BurstGPT, Azure's and Mooncake's traces; any CSV or JSON"
    " with --columns"
)
"""What is read."""
