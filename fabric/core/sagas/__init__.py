"""Calls that change the world get keys, and are undone in order."""
