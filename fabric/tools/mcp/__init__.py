"""Tools call MCP servers over the official SDK."""
