"""Tables keep workspaces and the versions of their policies."""
