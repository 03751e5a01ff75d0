"""Reads list a run's events, show one moment and explain each decision."""
