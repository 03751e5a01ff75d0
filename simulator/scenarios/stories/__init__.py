"""Tells a drill's run moment by moment, with the numbers behind each decision."""
