"""Members find runs by one query line."""
