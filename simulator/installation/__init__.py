"""Makes a temporary installation in a folder of its own, for commands."""
