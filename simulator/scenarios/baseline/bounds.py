"""Bounds the simulated time of a run. Pages show it, and load no simulated world for that."""

LONGEST_S = 400_000.0
"""Virtual seconds in which a run must have ended: longer than any deadline and due time."""
