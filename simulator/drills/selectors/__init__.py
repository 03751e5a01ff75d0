"""Reads drills, batches and their runs, for pages and commands."""
