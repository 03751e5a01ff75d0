"""Tools of MCP servers, spoken to by the official SDK. Only ``servers`` is imported at a start; the SDK is when the first server is."""
