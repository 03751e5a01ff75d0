"""Checks judges, oracles and released outputs against the journal."""
