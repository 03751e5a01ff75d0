"""A run leaves as lines of events or as a bundle that verifies offline."""
