"""The MCP server: HiveMind's tools for agents, at `/mcp` of the proxy and as `hivemind mcp` on standard input.

The tools are plain functions that use a :class:`~.access.ProxyAccess`; only :mod:`.server` imports the SDK, which takes
most of a second.
"""
