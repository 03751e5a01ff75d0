"""Reads every environment variable from one table, and refuses unusable values."""
