"""Recorded traces of agents show what the loop detectors would have stopped."""
