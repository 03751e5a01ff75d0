"""Reads show the review queue and one review with its evidence."""
