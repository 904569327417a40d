"""The MCP server: HiveMind's tools for agents, at `/mcp` of the proxy and as `hivemind mcp` on standard input.

What the tools do is here as plain functions on a :class:`~.desk.Desk`; :mod:`.server` alone knows the SDK, which takes
most of a second to import.
"""
