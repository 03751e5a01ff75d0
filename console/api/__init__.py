"""The HTTP API serves the services and selectors of every noun below `/api/v1`."""
