"""Reads list fabrics, their revisions, their limits and what a revision changed."""
