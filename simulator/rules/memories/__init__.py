"""Checks memories against the writes of the journals that were not undone."""
