"""Members act on many runs at once, and follow such a job to its end."""
