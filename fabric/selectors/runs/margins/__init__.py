"""Margins show how near a run is to each of its limits."""
