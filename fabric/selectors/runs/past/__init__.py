"""Selectors of a run as of one of its events."""
