"""Loops, deadlocks and repeated failures are found by these pure functions."""
