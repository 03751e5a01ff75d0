"""Samples and drills call these tools; each runs in a process of its own, without Django."""
